"""What a process in Python says to the controller: events as JSON lines."""

import ctypes
import json
import linecache
import os
import re
import resource
import select
import signal
import sys
import threading
import time
import traceback

EVENTS_FD = 3
HEARTBEAT_S = 2.0
PHASES = ("init", "data", "forward", "backward", "record", "optimizer")
PR_SET_PDEATHSIG = 1
ROWS_IN_A_PIECE = 16  # some kilobytes: what a socket holds is counted by pieces


def die_with_the_controller():
    """The kernel ends this process when the controller is gone; it may have gone before this was asked for."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    poll = select.poll()
    poll.register(EVENTS_FD, 0)
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        os._exit(1)


class Channel:
    """Of one process, which is number `process` of its case. Events go to descriptor 3; a subclass may send them elsewhere."""

    def __init__(self, clock_origin_ms, process=0):
        self._origin_ms = min(clock_origin_ms, time.monotonic_ns() // 1_000_000)  # a container may have a clock of its own
        self._process = process
        self._lock = threading.Lock()
        self._first = []  # lines that go out with the next ones
        self._counting = threading.Lock()
        self.phase = "init"
        self._step = 1
        self._counters = {"work_items": 0, "hooks": 0, "collectives_enqueued": 0, "collectives_completed": 0}
        self.hooked = []  # grows by one for each hook that is called and was not counted yet
        self._heads = {phase: self.head("phase", f'"phase": "{phase}", "step": ') for phase in PHASES}
        self._longest_gap_ms = 0
        self._moved_ms = self.now_ms()
        self._start()

    def _start(self):
        for task in (self._beat, self._answer):
            threading.Thread(target=task, name=task.__name__.strip("_"), daemon=True).start()

    def _send(self, data):
        while data:
            data = data[os.write(EVENTS_FD, data) :]

    def now_ms(self):
        return time.monotonic_ns() // 1_000_000 - self._origin_ms  # written out where a step passes several times

    def write(self, kind, **body):
        self.send(self._line(kind, body))

    def write_all(self, kind, rows):
        """Some in one piece; those before one that cannot be made as well."""
        lines = []
        try:
            for body in rows:
                lines.append(self._line(kind, body))
                if len(lines) == ROWS_IN_A_PIECE:
                    self.send("".join(lines))
                    lines.clear()
        finally:
            if lines:
                self.send("".join(lines))

    def _line(self, kind, body):
        return f'{{"process": {self._process}, "t_ms": {self.now_ms()}, "kind": "{kind}", "body": {json.dumps(body)}}}\n'

    def head(self, kind, body):
        """What does not change of a line that is told again and again: `body` is how its row begins. What comes after the row is the time."""
        return f'{{"process": {self._process}, "kind": "{kind}", "body": {{{body}'

    def send(self, lines):
        """Whole ones. They are outside when this comes back."""
        with self._lock:
            if self._first:
                lines = "".join(self._first) + lines
                self._first.clear()
            if lines:
                self._send(lines.encode())

    def put(self, lines):
        """Whole ones, which go out with the next ones: a call into the kernel costs as much as all that a step says. The beat comes next at
        the latest."""
        with self._lock:
            self._first.append(lines)

    def enter(self, phase, step=1, after_work=False):
        """`after_work`: the phase before ends because something was done."""
        now = time.monotonic_ns() // 1_000_000 - self._origin_ms
        if after_work:
            self._moved_ms = now
            self._counters["work_items"] += 1
        self.phase = phase
        self._step = step
        self._longest_gap_ms = 0
        self.send(f'{self._heads[phase]}{step}}}, "t_ms": {now}}}\n')

    def moved(self, counter="work_items"):
        """Gives the time."""
        now = time.monotonic_ns() // 1_000_000 - self._origin_ms
        gap = now - self._moved_ms
        if gap > self._longest_gap_ms:
            self._longest_gap_ms = gap
        self._moved_ms = now
        self._counters[counter] += 1
        return now

    def hooks(self):
        """How many hooks of gradients were called so far."""
        with self._counting:
            if count := len(self.hooked):
                del self.hooked[:count]  # the thread that computes may have added to it meanwhile
                self._counters["hooks"] += count
            return self._counters["hooks"]

    def beat(self):
        self.hooks()
        used = resource.getrusage(resource.RUSAGE_SELF)
        self.write(
            "heartbeat",
            phase=self.phase,
            step=self._step,
            counters={**self._counters, "cpu_ms": int(1000 * (used.ru_utime + used.ru_stime))},
            longest_gap_ms=self._longest_gap_ms,
            rss_bytes=used.ru_maxrss * 1024,
        )

    def end_calls(self):
        """From here on no thread of this channel calls what a subclass may be given to call."""

    def tell_stacks(self):
        frames = sys._current_frames()
        threads = [
            {"thread": f"{thread.name} {thread.native_id}", "frames": stack_of(frames.get(thread.ident))}
            for thread in threading.enumerate()
        ]
        self.write("observation", threads=threads)

    def _beat(self):
        while True:
            time.sleep(HEARTBEAT_S)
            self.beat()

    # The controller asks with SIGUSR1, which it has blocked in all threads, where every thread stands.
    def _answer(self):
        while True:
            signal.sigwait([signal.SIGUSR1])
            self.tell_stacks()


MOST_FRAMES = 64


def stack_of(frame):
    """Innermost first, as place_of() tells them."""
    stack = []
    while frame is not None and len(stack) < MOST_FRAMES:
        path = frame.f_code.co_filename
        line = linecache.getline(path, frame.f_lineno).strip() if is_of_user(path) else ""
        stack.append(told_frame(frame.f_code.co_name, path, frame.f_lineno, line))
        frame = frame.f_back
    return stack


def place_of(error):
    """Frames of the traceback, innermost first. Those of the user's own have the text of their line (harness/evidence/python_frame.h)."""
    frames = traceback.extract_tb(error.__traceback__)
    return [told_frame(frame.name, frame.filename, frame.lineno, frame.line) for frame in reversed(frames)]


def original_of(error):
    """What a worker of a loader raised, where its parent tells of it: torch writes the worker's traceback into the message. "KeyError: 120, at
    __getitem__ (train.py:36): return table[index]"; "": it is no such exception."""
    _, found, trace = str(error).rpartition("Original Traceback (most recent call last):\n")
    frames = list(re.finditer(r'^  File "(.*)", line (\d+), in (.*)\n    (.*)$', trace, re.M))
    if not found or not frames:
        return ""
    raised = next((line for line in trace[frames[-1].end() :].splitlines() if line and not line.startswith(" ")), "")
    own = [told_frame(name, path, int(number), line) for path, number, name, line in map(re.Match.groups, frames) if is_of_user(path)]
    return ", at ".join([raised, *own[-1:]])


MOST_SHOWN = 100  # characters of a line


def told_frame(name, path, number, line):
    return f"{name} ({short_path(path)}:{number})" + (f": {line[:MOST_SHOWN]}" if line and is_of_user(path) else "")


def is_of_user(path):
    """Not of an installed package, of Python's own library or of this package."""
    libraries = (os.path.dirname(os.__file__) + os.sep, os.path.dirname(os.path.abspath(__file__)) + os.sep, "<")
    return not path.startswith(libraries) and "site-packages/" not in path and "dist-packages/" not in path


def name_of_type(error):
    """As a traceback names it."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def bases_of(error, torch):
    """Names of its base classes, and before them what the controller knows it by: LibTorch's own names for what LibTorch raised."""
    bases = [f"{base.__module__}.{base.__qualname__}" for base in type(error).__mro__[1:-1]]
    text = str(error)
    if torch is not None:
        no_memory = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
        if isinstance(error, no_memory):
            bases.insert(0, "c10::OutOfMemoryError")
        elif isinstance(error, RuntimeError) and "CUDA error" in text:
            bases.insert(0, "c10::AcceleratorError")
        elif isinstance(error, RuntimeError) and "DefaultCPUAllocator" in text:
            bases.insert(0, "std::bad_alloc")
    if isinstance(error, MemoryError):
        bases.insert(0, "std::bad_alloc")
    return bases


def short_path(path):
    """Of a library from its package on, else the file's name: a message that comes out of PyTorch is not the script's own."""
    for folder in ("site-packages/", "dist-packages/"):
        if folder in path:
            return path.rsplit(folder, 1)[1]
    return os.path.basename(path)
