"""The channel of a process that the controller did not start itself: the same events over a socket, since no descriptor survives a
launcher."""

import select
import socket
import threading

from nsa_harness import flight
from nsa_harness.channel import HEARTBEAT_S, Channel

LET_GO_S = 5.0  # that threads get at the end to come back from torch, and those of torch to let go of what they called


class SocketChannel(Channel):
    """Over it stacks are asked for too."""

    def __init__(self, address, clock_origin_ms, rank):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # The controller reads at intervals: what is told of a recorded step should fit.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self._socket.connect("\0" + address)
        self.on_beat = lambda: None
        self.flight = lambda: ""
        self._inside = threading.Lock()  # held while the thread is in one of these two
        super().__init__(clock_origin_ms, rank)

    def _start(self):
        threading.Thread(target=self._serve, name="nsa_harness", daemon=True).start()

    def end_calls(self):
        """From here on the thread calls nothing of torch: where the interpreter ends meanwhile, that aborts the process."""
        if self._inside.acquire(timeout=LET_GO_S):
            self.on_beat = lambda: None
            self.flight = lambda: ""
            self._inside.release()

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

    def _send(self, data):
        try:
            self._socket.sendall(data)
        except OSError:
            pass  # the controller is gone; training is not disturbed

    # Waits in a poll: an outright sleep would look like one that somebody waits for.
    def _serve(self):
        while True:
            ready, _, _ = select.select([self._socket], [], [], HEARTBEAT_S)
            if not ready:
                self.beat()
            elif not self._socket.recv(4096):
                return
            else:
                self.tell_stacks()
                self.tell_flight()
