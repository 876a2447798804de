"""What watch() records of steps, in one process without a harness: which hooks are in place, what is told, in which order."""

import gc
import json
import os
import sys
import threading
import types
import unittest
import weakref

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

import torch  # noqa: E402
from torch.distributed.algorithms.join import Join  # noqa: E402

from nsa_harness import flight  # noqa: E402
from nsa_harness.channel import ROWS_IN_A_PIECE, Channel  # noqa: E402
from nsa_harness.collectives import COLLECTIVES  # noqa: E402
from nsa_harness.train import FEW_HOOKS, FIRST_STEPS, Recorder, SocketChannel  # noqa: E402

torch.set_num_threads(1)
EVERY = FIRST_STEPS + 3
MOST_CALLS = 62  # of functions of the package in a step that is not recorded, with two buckets, before one that is


class Told(Channel):
    """Keeps what is told, and says when."""

    def _start(self):
        self.sent = []  # texts, as they went out

    def _send(self, data):
        self.sent.append(data.decode())

    def rows(self, kind):
        events = [json.loads(line) for text in self.sent for line in text.splitlines()]
        return [event["body"] for event in events if event["kind"] == kind]


def restore(test):
    """What a recorder puts something in the place of, is put back when the test ends."""
    for where, name in (
        (torch.autograd, "backward"),
        (torch, "compile"),
        (torch.amp.GradScaler, "scale"),
        (Join, "notify_join_context"),
        (sys, "excepthook"),
    ):
        test.addCleanup(setattr, where, name, where.__dict__[name])


class Recording(unittest.TestCase):
    def setUp(self):
        restore(self)
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(6)])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.told = Told(0)
        self.recorder = Recorder(self.model, self.optimizer, self.told, 0, EVERY, torch)
        self.recorder.start()

    def hooks(self):
        self.told.beat()
        return self.told.rows("heartbeat")[-1]["counters"]["hooks"]

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
        self.assertEqual(self.hooks(), 12 * FIRST_STEPS)
        self.train(1)
        phases = [row["phase"] for row in self.told.rows("phase") if row["step"] == FIRST_STEPS + 1]
        self.assertEqual(phases, ["data", "forward", "backward", "optimizer"])
        self.assertEqual(self.hooks(), 12 * FIRST_STEPS + FEW_HOOKS)

    def test_hooks_of_a_backward_are_told_before_the_step_ends(self):
        self.train(FIRST_STEPS)
        self.model(torch.randn(2, 4)).square().mean().backward()
        self.assertEqual(self.hooks(), 12 * FIRST_STEPS + FEW_HOOKS)

    # A hook cannot be put on a parameter while it is frozen.
    def test_a_parameter_that_was_frozen_between_recorded_steps_is_seen_again(self):
        self.train(FIRST_STEPS)
        self.model[2].requires_grad_(False)
        self.train(EVERY - 1 - FIRST_STEPS)
        self.model[2].requires_grad_(True)
        self.train(1)
        last = {row["param"]: row for row in self.told.rows("gradient") if row["step"] == EVERY}
        self.assertEqual((last["2.weight"]["ready_count"], last["2.weight"]["state"]), (1, "ok"))


    def test_rows_of_a_recorded_step_go_out_together(self):
        self.train(1)
        pieces = [text for text in self.told.sent if '"kind": "gradient"' in text]
        self.assertEqual(sum(text.count("\n") for text in pieces), 12)
        self.assertEqual(len(pieces), -(-12 // ROWS_IN_A_PIECE))

    def test_rows_before_one_that_cannot_be_made_are_told(self):
        def rows():
            yield {"param": "a"}
            raise RuntimeError("of the card")

        with self.assertRaises(RuntimeError):
            self.told.write_all("gradient", rows())
        self.assertEqual(self.told.rows("gradient"), [{"param": "a"}])


class DataParallel(unittest.TestCase):
    """What a step of DistributedDataParallel tells that is not recorded whole."""

    def setUp(self):
        distributed = torch.distributed
        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
        self.addCleanup(distributed.destroy_process_group)
        restore(self)
        for name in COLLECTIVES:
            self.addCleanup(setattr, distributed, name, getattr(distributed, name))
        torch.manual_seed(0)
        # Two buckets: the first one of DistributedDataParallel holds 1 MiB.
        layers = torch.nn.Sequential(torch.nn.Linear(400, 400), torch.nn.Linear(400, 400), torch.nn.Linear(400, 400))
        self.model = torch.nn.parallel.DistributedDataParallel(layers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.told = Told(0)
        self.recorder = Recorder(self.model, self.optimizer, self.told, 0, EVERY, torch)
        self.recorder.start()

    def step(self):
        self.optimizer.zero_grad()
        self.model(torch.randn(2, 400)).square().mean().backward()
        self.optimizer.step()

    def unrecorded_step(self):
        for _ in range(FIRST_STEPS):
            self.step()
        self.told.sent.clear()
        self.step()
        return self.told.sent

    def test_a_bucket_and_its_collective_are_one_piece_and_a_phase_is_one(self):
        pieces = [[json.loads(line)["kind"] for line in text.splitlines()] for text in self.unrecorded_step()]
        self.assertEqual(sorted(map(str, pieces)), sorted(map(str, 4 * [["phase"]] + [["sample"]] + 2 * [["bucket", "collective"]] + 2 * [["collective_done"]])))

    # What a step costs is mostly calls: each finds the processor's memory full of the training's numbers.
    def test_a_step_makes_few_calls(self):
        self.unrecorded_step()
        calls = []

        def called(frame, event, _):
            if event == "call" and os.path.basename(os.path.dirname(frame.f_code.co_filename)) == "nsa_harness":
                calls.append(frame.f_code.co_name)

        sys.setprofile(called)
        self.step()
        sys.setprofile(None)
        self.assertLessEqual(len(calls), MOST_CALLS, calls)

    def test_every_row_is_whole(self):
        self.unrecorded_step()
        step = FIRST_STEPS + 1
        self.assertEqual(sorted(index for row in self.told.rows("bucket") for index in row["params"]), list(range(6)))
        collectives = self.told.rows("collective")
        self.assertEqual(sum(row["count"] for row in collectives), sum(param.numel() for param in self.model.parameters()))
        first = collectives[0].pop("sequence")
        expected = {"step": step, "phase": "backward", "op": "allreduce", "reduce_op": "sum", "dtype": "Float", "group": "default", "micro": 0}
        collectives[0].pop("count")
        self.assertEqual(collectives[0], expected)
        self.assertEqual([row["sequence"] for row in self.told.rows("collective_done")], [first, first + 1])
        for text in self.told.sent:
            for line in text.splitlines():
                self.assertEqual(sorted(json.loads(line)), ["body", "kind", "process", "t_ms"])

    def test_a_collective_is_outside_before_it_is_issued(self):
        for _ in range(FIRST_STEPS):
            self.step()
        issued = []

        class Group:
            def __init__(self, group):
                self.size, self.group = group.size, group

            def allreduce(group, tensors, options):
                issued.append(len(self.told.rows("collective")) - len(self.told.rows("collective_done")))
                return group.group.allreduce(tensors, options)

        self.recorder.communication_hook.group = Group(self.recorder.communication_hook.group)
        self.step()
        self.assertEqual(len(issued), 2)
        self.assertTrue(all(issued), issued)

    # Else the process would wait at its end for what the card has not done.
    def test_what_waits_for_the_card_holds_no_reduction(self):
        self.unrecorded_step()
        hook = self.recorder.communication_hook
        reduction = next(iter(hook.known.values()))
        reduction.is_cuda, self.recorder.on_card = True, lambda tensors: True
        pending = []
        self.recorder.settle = lambda done, on_card: pending.append(done)
        summed = torch.futures.Future()
        summed.set_result([torch.zeros(1)])
        reduction.finish(summed)
        held = weakref.ref(reduction)
        hook.forget()
        del reduction
        gc.collect()
        self.assertIsNone(held())
        done = len(self.told.rows("collective_done"))
        pending[0]()
        self.assertEqual(len(self.told.rows("collective_done")), done + 1)

    def test_a_collective_that_failed_is_not_told_as_done(self):
        self.unrecorded_step()
        done = len(self.told.rows("collective_done"))
        failed = torch.futures.Future()
        failed.set_exception(RuntimeError("connection closed by peer"))
        with self.assertRaisesRegex(RuntimeError, "closed by peer"):
            next(iter(self.recorder.communication_hook.known.values())).finish(failed)
        self.assertEqual(len(self.told.rows("collective_done")), done)


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
