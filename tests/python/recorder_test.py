"""What watch() records of steps, in one process without a harness: which hooks are in place, what is told, in which order."""

import json
import os
import sys
import threading
import types
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

import torch  # noqa: E402

from nsa_harness import flight  # noqa: E402
from nsa_harness.channel import Channel  # noqa: E402
from nsa_harness.train import FEW_HOOKS, FIRST_STEPS, Recorder, SocketChannel  # noqa: E402

EVERY = FIRST_STEPS + 3


class Told(Channel):
    """Keeps what is told, and says when."""

    def _start(self):
        self.sent = []  # texts, as they went out

    def _send(self, data):
        self.sent.append(data.decode())

    def rows(self, kind):
        events = [json.loads(line) for text in self.sent for line in text.splitlines()]
        return [event["body"] for event in events if event["kind"] == kind]


class Recording(unittest.TestCase):
    def setUp(self):
        self.addCleanup(setattr, torch.autograd, "backward", torch.autograd.backward)
        self.addCleanup(setattr, sys, "excepthook", sys.excepthook)
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(6)])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.told = Told(0)
        self.recorder = Recorder(self.model, self.optimizer, self.told, 0, EVERY, torch)
        self.recorder.start()

    def train(self, steps, before_backward=lambda: None):
        for _ in range(steps):
            loss = self.model(torch.randn(2, 4)).square().mean()
            before_backward()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def test_memory_that_the_script_asked_for_is_told_by_its_own_name(self):
        try:
            torch.ones(1 << 50)
        except RuntimeError as error:
            self.recorder.tell_error(error)
        (row,) = self.told.rows("error")
        self.assertEqual(row["type"], "RuntimeError")
        self.assertEqual(row["bases"][0], "std::bad_alloc")

    def test_gradients_are_told_of_recorded_steps_alone(self):
        self.train(EVERY + 1)
        gradients = self.told.rows("gradient")
        self.assertEqual(sorted({row["step"] for row in gradients}), [*range(1, FIRST_STEPS + 1), EVERY])
        self.assertEqual(len(gradients), 12 * (FIRST_STEPS + 1))
        self.assertEqual({(row["ready_count"], row["reachable"], row["state"]) for row in gradients}, {(1, True, "ok")})
        self.assertEqual(sorted(row["ready_order"] for row in gradients if row["step"] == EVERY), list(range(12)))

    def test_every_step_tells_its_phases_and_counts_hooks(self):
        self.train(FIRST_STEPS)
        hooks = self.told._counters["hooks"]
        self.assertEqual(hooks, 12 * FIRST_STEPS)
        self.train(1)
        phases = [row["phase"] for row in self.told.rows("phase") if row["step"] == FIRST_STEPS + 1]
        self.assertEqual(phases, ["data", "forward", "backward", "optimizer"])
        self.assertEqual(self.told._counters["hooks"], hooks + FEW_HOOKS)

    def test_hooks_of_a_backward_are_told_before_the_step_ends(self):
        self.train(FIRST_STEPS)
        hooks = self.told._counters["hooks"]
        self.model(torch.randn(2, 4)).square().mean().backward()
        self.told.beat()
        self.assertEqual(self.told.rows("heartbeat")[-1]["counters"]["hooks"], hooks + FEW_HOOKS)

    # A hook cannot be put on a parameter while it is frozen.
    def test_a_parameter_that_was_frozen_between_recorded_steps_is_seen_again(self):
        self.train(FIRST_STEPS)
        self.model[2].requires_grad_(False)
        self.train(EVERY - 1 - FIRST_STEPS)
        self.model[2].requires_grad_(True)
        self.train(1)
        last = {row["param"]: row for row in self.told.rows("gradient") if row["step"] == EVERY}
        self.assertEqual((last["2.weight"]["ready_count"], last["2.weight"]["state"]), (1, "ok"))

    def test_a_row_that_waits_goes_out_with_the_next_one(self):
        self.told.sent.clear()
        self.told.write_text("bucket", '{"step": 1}', waits=True)
        self.assertEqual(self.told.sent, [])
        self.told.write("fact", name="a", value="b")
        self.assertEqual([json.loads(line)["kind"] for line in self.told.sent[0].splitlines()], ["bucket", "fact"])


class FlightRecorder(unittest.TestCase):
    """What PyTorch's own recorder of collectives gives is read, or refused in words."""

    ENTRY = {"profiling_name": "gloo:all_reduce", "process_group": ["0", "default_pg"], "retired": True, "collective_seq_id": 3}

    @staticmethod
    def torch_that_holds(held):
        holder = types.SimpleNamespace(_dump_fr_trace_json=lambda collectives, active: json.dumps(held).encode())
        return types.SimpleNamespace(_C=types.SimpleNamespace(_distributed_c10d=holder))

    def test_what_is_known_is_read(self):
        sent = dict(self.ENTRY, is_p2p=True, collective_seq_id=None)
        value = flight.dump(self.torch_that_holds({"version": "2.10", "entries": [self.ENTRY, sent]}))
        self.assertEqual(json.loads(value), [["default", 3, "all_reduce", "", 0, True]])

    def test_another_version_and_a_missing_number_are_refused(self):
        numberless = {key: value for key, value in self.ENTRY.items() if key != "collective_seq_id"}
        for held, words in (
            ({"version": "3.0", "entries": [self.ENTRY]}, "version: found 3.0"),
            ({"entries": [self.ENTRY]}, "version: found none"),
            ({"version": "2.10", "entries": [numberless]}, "collective_seq_id of gloo:all_reduce: found none"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                flight.dump(self.torch_that_holds(held))

    def test_what_could_not_be_read_is_told(self):
        told = []
        channel = SocketChannel.__new__(SocketChannel)
        channel._inside = threading.Lock()
        channel.write = lambda kind, **row: told.append((kind, row["name"], row["value"]))
        channel.flight = lambda: flight.dump(self.torch_that_holds({"version": "3.0"}))
        channel.tell_flight()
        self.assertEqual(told, [("fact", "flight_unread", "version: found 3.0, wanted 2.x")])


if __name__ == "__main__":
    unittest.main()
