"""What the process that runs a kernel says to the controller: events as JSON lines on descriptor 3."""

import ctypes
import json
import os
import resource
import select
import signal
import sys
import threading
import time

EVENTS_FD = 3
HEARTBEAT_S = 2.0
PR_SET_PDEATHSIG = 1


def die_with_the_controller():
    """The kernel ends this process when the controller is gone; it may have gone before this was asked for."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    poll = select.poll()
    poll.register(EVENTS_FD, 0)
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        os._exit(1)


class Channel:
    def __init__(self, clock_origin_ms):
        self._origin_ms = clock_origin_ms
        self._lock = threading.Lock()
        self._phase = "init"
        self._done = 0  # pieces of work
        self._longest_gap_ms = 0
        self._moved_ms = self._now_ms()
        for task in (self._beat, self._answer):
            threading.Thread(target=task, name=task.__name__.strip("_"), daemon=True).start()

    def _now_ms(self):
        return max(0, time.monotonic_ns() // 1_000_000 - self._origin_ms)

    def write(self, kind, **body):
        line = json.dumps({"process": 0, "t_ms": self._now_ms(), "kind": kind, "body": body}) + "\n"
        data = line.encode()
        with self._lock:
            while data:
                data = data[os.write(EVENTS_FD, data) :]

    def enter(self, phase):
        self._phase = phase
        self._longest_gap_ms = 0
        self.write("phase", phase=phase, step=1)

    def moved(self):
        now = self._now_ms()
        self._longest_gap_ms = max(self._longest_gap_ms, now - self._moved_ms)
        self._moved_ms = now
        self._done += 1

    @property
    def phase(self):
        return self._phase

    def _beat(self):
        while True:
            time.sleep(HEARTBEAT_S)
            used = resource.getrusage(resource.RUSAGE_SELF)
            self.write(
                "heartbeat",
                phase=self._phase,
                step=1,
                counters={"work_items": self._done, "cpu_ms": int(1000 * (used.ru_utime + used.ru_stime))},
                longest_gap_ms=self._longest_gap_ms,
                rss_bytes=used.ru_maxrss * 1024,
            )

    # The controller asks with SIGUSR1, which it has blocked in all threads, where every thread stands.
    def _answer(self):
        while True:
            signal.sigwait([signal.SIGUSR1])
            frames = sys._current_frames()
            threads = [
                {"thread": f"{thread.name} {thread.native_id}", "frames": stack_of(frames.get(thread.ident))}
                for thread in threading.enumerate()
            ]
            self.write("observation", threads=threads)


def stack_of(frame):
    """Innermost first."""
    stack = []
    while frame is not None and len(stack) < 64:
        code = frame.f_code
        stack.append(f"{code.co_name} ({os.path.basename(code.co_filename)}:{frame.f_lineno})")
        frame = frame.f_back
    return stack
