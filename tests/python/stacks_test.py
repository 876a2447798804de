"""Processes of a command say where they stand when they are asked: also while a thread holds the interpreter, and the children of a fork."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOOK = os.path.join(ROOT, "python", "nsa_harness", "hook")
sys.path.insert(0, os.path.join(ROOT, "python"))

from nsa_harness.stacks import FOLDER, SIGNAL, THREAD  # noqa: E402

DEADLINE_S = 60


class Stacks(unittest.TestCase):
    def start(self, script, *options):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, FOLDER)
        environment = dict(os.environ, PYTHONPATH=HOOK, NSA_HARNESS_SOCKET=os.path.join(folder.name, "ranks.sock"))
        words = [sys.executable, *options, "-c", script]
        process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def asked(self, pid, process, ask=None):
        """What is in the process's file, which has no name any more, once `pid` has answered."""
        self.assertEqual(os.listdir(self.folder), [])
        folder = f"/proc/{pid}/fd"
        (path,) = [f"{folder}/{fd}" for fd in os.listdir(folder) if f"/{FOLDER}/{process.pid}" in os.readlink(f"{folder}/{fd}")]
        with open(path, encoding="utf-8") as file:  # the process may end meanwhile
            begun = file.seek(0, os.SEEK_END)
            ask() if ask else os.kill(pid, SIGNAL)
            end = time.monotonic() + DEADLINE_S
            while os.fstat(file.fileno()).st_size == begun and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(0.1)
            return file.read()

    def test_a_process_that_holds_the_interpreter_answers_and_goes_on(self):
        process = self.start("import ctypes\nprint('ready', flush=True)\ndef holds():\n    ctypes.PyDLL(None).usleep(2_000_000)\nholds()\nprint('end')")
        time.sleep(0.3)
        said = self.asked(process.pid, process)
        self.assertIn('File "<string>", line 4 in holds', said)
        self.assertIn("most recent call first", said)
        out, err = process.communicate(timeout=DEADLINE_S)
        self.assertEqual((out, err, process.returncode), ("end\n", "", 0))

    def test_a_fatal_signal_is_told_and_ends_the_process_as_before(self):
        process = self.start("import ctypes, time\nprint('ready', flush=True)\ntime.sleep(1)\ndef reads():\n    ctypes.string_at(0)\nreads()")
        said = self.asked(process.pid, process, process.wait)
        self.assertIn("Fatal Python error: Segmentation fault", said)
        self.assertIn('File "<string>", line 5 in reads', said)
        self.assertEqual((process.stderr.read(), process.returncode), ("", -signal.SIGSEGV))

    def test_where_the_user_has_fatal_signals_told_they_are_told_there(self):
        process = self.start("import ctypes, time\nprint('ready', flush=True)\ntime.sleep(1)\nctypes.string_at(0)", "-X", "faulthandler")
        self.assertEqual(self.asked(process.pid, process, process.wait), "")
        self.assertIn("Fatal Python error: Segmentation fault", process.stderr.read())

    def test_the_child_of_a_fork_answers_into_the_file_of_its_parent(self):
        script = "import os, time\nchild = os.fork()\nif not child:\n    time.sleep(60)\nprint('ready', flush=True)\nprint(child, flush=True)\ntime.sleep(60)"
        process = self.start(script)
        child = int(process.stdout.readline())
        self.addCleanup(os.kill, child, signal.SIGKILL)
        time.sleep(0.3)
        self.assertIn("line 4 in <module>", self.asked(child, process))
        self.assertIn("line 7 in <module>", self.asked(process.pid, process))

    def test_any_thread_may_be_asked_and_the_main_thread_stands_last(self):
        lines = (
            "import sys, threading, time",
            f"sys.path.insert(0, {os.path.join(ROOT, 'python')!r})",
            "from nsa_harness import stacks",
            "def serve():",
            "    stacks.name_this_thread()",
            "    print('ready', flush=True)",
            "    print(threading.get_native_id(), flush=True)",
            "    time.sleep(60)",
            "threading.Thread(target=serve, daemon=True).start()",
            "time.sleep(60)",
        )
        process = self.start("\n".join(lines))
        tid = int(process.stdout.readline())
        with open(f"/proc/{process.pid}/task/{tid}/comm", encoding="utf-8") as file:
            self.assertEqual(file.read(), THREAD + "\n")
        time.sleep(0.3)
        libc = ctypes.CDLL(None, use_errno=True)
        said = self.asked(process.pid, process, lambda: libc.tgkill(process.pid, tid, int(SIGNAL)))
        self.assertIn("line 8 in serve", said)
        self.assertTrue(said.endswith("line 10 in <module>\n"), said)

    def test_a_handler_of_the_scripts_own_stays(self):
        handler = "lambda *_: (print('mine', flush=True), os._exit(0))"
        script = f"import os, signal, time\nsignal.signal({int(SIGNAL)}, {handler})\nprint('ready', flush=True)\ntime.sleep(60)"
        process = self.start(script)
        process.send_signal(SIGNAL)
        self.assertEqual(process.communicate(timeout=DEADLINE_S), ("mine\n", ""))

    def test_without_the_hook_nothing_is_armed(self):
        process = self.start("print('ready', flush=True)\nimport time\ntime.sleep(60)", "-I")
        self.assertFalse(os.path.exists(self.folder))
        with open(f"/proc/{process.pid}/status", encoding="utf-8") as file:
            caught = next(int(line.split()[1], 16) for line in file if line.startswith("SigCgt"))
        self.assertEqual(caught >> (SIGNAL - 1) & 1, 0)


if __name__ == "__main__":
    unittest.main()
