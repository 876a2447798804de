"""The channel of a process that the controller did not start itself: the same events over a Unix socket in the case's folder, since no
descriptor survives a launcher. A path is found from every network namespace; an abstract name is not.

It never waits for the controller: what the socket does not hold is kept here, up to MOST_KEPT bytes, and lines beyond that are lost
and counted."""

import collections
import os
import select
import socket
import threading
import time

from nsa_harness import flight, stacks
from nsa_harness.channel import HEARTBEAT_S, Channel
from nsa_harness.rank_of_process import connected

ADDRESS = "NSA_HARNESS_SOCKET"  # variable: path of a Unix socket in the folder of the case
LET_GO_S = 5.0  # that threads get at the end to come back from torch, and those of torch to let go of what they called
LAST_WORDS_S = 2.0  # that the controller gets at the end to read some of what is kept here, again and again until it has read all
MOST_LAST_WORDS_S = 30.0
MOST_KEPT = 32 << 20  # bytes: recorded steps of a large model, and hours of others
LOST = "lines_lost"  # the fact that says how many


class SocketChannel(Channel):
    """Over it PyTorch's flight recorder is asked for too. The stacks come from stacks.py."""

    def __init__(self, path, clock_origin_ms, rank):
        self._socket = connected(path)
        self._kept = collections.deque()  # bytes that the socket did not take, in order
        self._kept_bytes = 0
        self._lost = 0
        self._waker = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)  # the thread is to look after what is kept
        self.on_beat = lambda: None
        self.flight = lambda: ""
        self._inside = threading.Lock()  # held while the thread is in one of these two
        os.register_at_fork(after_in_child=self._let_go)
        super().__init__(clock_origin_ms, rank)

    def _start(self):
        threading.Thread(target=self._serve, name="nsa_harness", daemon=True).start()

    def _let_go(self):
        """In a child of a fork, which has neither the thread nor a right to speak: locks may be held by nobody there."""
        self._lock, self._inside, self._counting = threading.Lock(), threading.Lock(), threading.Lock()
        self._gone()

    def _gone(self):
        """The controller, or for a child of a fork its own right to speak. Training is not disturbed."""
        connection, self._socket = self._socket, None
        self._kept.clear()
        self._kept_bytes = 0
        if connection is not None:
            connection.close()

    def end_calls(self):
        """From here on the thread calls nothing of torch: if the interpreter ends meanwhile, that aborts the process."""
        if self._inside.acquire(timeout=LET_GO_S):
            self.on_beat = lambda: None
            self.flight = lambda: ""
            self._inside.release()
        now = time.monotonic()
        end, last, kept = now + LAST_WORDS_S, now + MOST_LAST_WORDS_S, self._kept_bytes
        while self._kept and time.monotonic() < min(end, last):
            time.sleep(0.001)
            with self._lock:
                self._flush()
            if self._kept_bytes < kept:
                kept, end = self._kept_bytes, time.monotonic() + LAST_WORDS_S

    def beat(self):
        with self._inside:
            self.on_beat()
        super().beat()

    def tell_flight(self):
        try:
            with self._inside:
                value = self.flight()
        except (RuntimeError, ValueError, TypeError, AttributeError) as error:  # of a torch that has another form of it
            self.write("fact", name=flight.UNREAD, value=str(error))
            return
        if value:
            self.write("fact", name=flight.FACT, value=value)

    # Under the lock, as all that speaks of what is kept.
    def _send(self, data):
        if self._socket is None:
            return
        if not self._kept:  # as it nearly always is
            try:
                data = data[self._socket.send(data, socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                pass
            except OSError:
                self._gone()
                return
            if not data:
                return
            self._keep(data)
            os.eventfd_write(self._waker, 1)
        elif self._kept_bytes + len(data) > MOST_KEPT:
            self._lost += data.count(b"\n")
        else:
            self._keep(data)
        self._flush()

    def _keep(self, data):
        self._kept.append(data)
        self._kept_bytes += len(data)

    def _flush(self):
        try:
            while self._kept and self._socket is not None:
                sent = self._socket.send(self._kept[0], socket.MSG_NOSIGNAL)
                self._kept_bytes -= sent
                if sent < len(self._kept[0]):
                    self._kept[0] = self._kept[0][sent:]
                else:
                    self._kept.popleft()
                if not self._kept and self._lost:
                    lost, self._lost = self._lost, 0
                    self._keep(self._line("fact", {"name": LOST, "value": str(lost)}).encode())
        except BlockingIOError:
            pass  # the thread goes on with it
        except OSError:
            self._gone()

    # Waits in a poll: an outright sleep would look like one that somebody waits for.
    def _serve(self):
        stacks.name_this_thread()
        beaten = time.monotonic()
        while (connection := self._socket) is not None:
            poll = select.poll()
            poll.register(self._waker, select.POLLIN)
            left_ms = 1000 * (beaten + HEARTBEAT_S - time.monotonic())
            try:
                poll.register(connection, select.POLLIN | (select.POLLOUT if self._kept else 0))
                events = dict(poll.poll(max(0, left_ms)))
                if events.get(self._waker):
                    os.eventfd_read(self._waker)
                happened = events.get(connection.fileno(), 0)
                if happened & ~select.POLLOUT and not self._hear(connection):
                    return
            except (OSError, ValueError):  # it was closed meanwhile
                return
            if happened & select.POLLOUT:
                with self._lock:
                    self._flush()
            if time.monotonic() >= beaten + HEARTBEAT_S:
                beaten = time.monotonic()
                self.beat()

    def _hear(self, connection):
        """False: the controller is gone."""
        try:
            if not connection.recv(4096):
                return False
        except BlockingIOError:
            return True
        self.tell_flight()
        return True
