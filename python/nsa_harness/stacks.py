"""The stacks of a Python process for nsa-harness. Python's faulthandler writes them when the signal SIGNAL comes: its code asks for no lock
of the interpreter, so they come also where a thread holds that for ever, and before a fatal signal ends the process. The child of a fork
writes to the same file.

harness/cli/running/python_frames.cpp sends the signal, and finds the file by its descriptor."""

import faulthandler
import os
import signal
import threading

SIGNAL = signal.SIGRTMAX - 3  # no library that trainings use takes it
FOLDER = "python_stacks"  # in the folder of the case
THREAD = "nsa_harness"  # to the system; it takes the signal where it is, so that no thread of the training is disturbed


def arm(address):
    """Once in a process. `address`: of the socket in the case's folder. Does nothing if the script has a handler of its own, or if the folder
    cannot be written to."""
    if hasattr(faulthandler, "nsa_harness_file") or signal.getsignal(SIGNAL) is not signal.SIG_DFL:
        return
    folder = os.path.join(os.path.dirname(address), FOLDER)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    path = os.path.join(folder, str(os.getpid()))
    try:
        os.makedirs(folder, exist_ok=True)
        file = os.open(path, flags, 0o644)
        os.unlink(path)  # its descriptor is enough, and a command may start a million processes
    except OSError:
        return
    faulthandler.register(SIGNAL, file=file, all_threads=True, chain=False)
    if not faulthandler.is_enabled():  # else a fatal signal is told where the user wants it
        faulthandler.enable(file=file, all_threads=True)
    faulthandler.nsa_harness_file = file


def name_this_thread():
    try:
        with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w", encoding="ascii") as file:
            file.write(THREAD)
    except OSError:
        pass
