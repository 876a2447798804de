"""What watch() records of steps, in one process without a harness: which hooks are in place, what is told, in which order."""

import copy
import gc
import json
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import weakref

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
if "NSA_HARNESS_PROGRAM" in os.environ:
    LIBRARY = os.path.join(os.path.dirname(os.environ["NSA_HARNESS_PROGRAM"]), "..", "lib", "libnsa_fingerprint.so")
    os.environ.setdefault("NSA_HARNESS_FINGERPRINT", LIBRARY)

import torch  # noqa: E402
from torch.distributed.algorithms.join import Join  # noqa: E402

from nsa_harness import flight, socket_channel  # noqa: E402
from nsa_harness.channel import ROWS_IN_A_PIECE, Channel  # noqa: E402
from nsa_harness.collectives import COLLECTIVES  # noqa: E402
from nsa_harness.train import FEW_HOOKS, FIRST_STEPS, Recorder, SocketChannel  # noqa: E402

torch.set_num_threads(1)
EVERY = FIRST_STEPS + 3
MOST_CALLS = 118  # of functions of the package in a step that is not recorded, with two buckets, before one that is


class Told(Channel):
    """Keeps what is told, and says when."""

    def _start(self):
        self.sent = []  # texts, as they went out
        self.finish = lambda: None  # what the recorder does at its end

    def _send(self, data):
        self.sent.append(data.decode())

    def rows(self, kind):
        self.finish()
        self.send("")
        events = [json.loads(line) for text in self.sent for line in text.splitlines()]
        return [event["body"] for event in events if event["kind"] == kind]


def restore(test):
    """What a recorder puts something in the place of, is put back when the test ends."""
    for where, name in (
        (torch.autograd, "backward"),
        (torch, "compile"),
        (torch.amp.GradScaler, "scale"),
        (Join, "notify_join_context"),
        (torch.nn.parallel.distributed._DDPJoinHook, "main_hook"),
        (torch.nn.parallel.DistributedDataParallel, "register_comm_hook"),
        (torch.nn.parallel.DistributedDataParallel, "_sync_buffers"),
        (torch.nn.parallel.DistributedDataParallel, "_register_builtin_comm_hook"),
        (sys, "excepthook"),
    ):
        test.addCleanup(setattr, where, name, where.__dict__[name])
    test.addCleanup(sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks.clear)


class Recording(unittest.TestCase):
    def setUp(self):
        restore(self)
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(6)])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.told = Told(0)
        self.recorder = Recorder(self.model, self.optimizer, self.told, 0, EVERY, torch)
        self.recorder.start()

    def test_an_optimiser_that_steps_inside_of_the_backward_is_not_judged(self):
        last = list(self.model.parameters())[-1]
        last.register_post_accumulate_grad_hook(lambda _: self.optimizer.step())
        self.model(torch.randn(2, 4)).square().mean().backward()
        (fact,) = [row["value"] for row in self.told.rows("fact") if row["name"] == "not_judged" and "inside" in row["value"]]
        self.assertIn("an optimiser takes its steps inside of the backward", fact)
        self.assertEqual([], self.told.rows("gradient"))
        self.assertEqual([], self.told.rows("digest"))

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

    def test_a_long_run_is_recorded_more_and_more_rarely_unless_it_is_told_how_often(self):
        def recorded(every, until):
            self.recorder.record_every(every)
            found = []
            for self.recorder.step in range(1, until + 1):
                if self.recorder.is_recorded():
                    found.append(self.recorder.step)
            return found[FIRST_STEPS:]

        self.assertEqual(recorded(None, 30_000), [*range(100, 1000, 100), *range(1000, 10_000, 1000), 10_000, 20_000, 30_000])
        self.assertEqual(recorded(400, 2000), [400, 800, 1200, 1600, 2000])

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


    def steps_with(self, phase):
        return [row["step"] for row in self.told.rows("phase") if row["phase"] == phase]

    def test_a_step_whose_gradients_are_dropped_ends_without_an_update(self):
        self.train(1)
        self.model(torch.randn(2, 4)).square().mean().backward()  # step 2, which the script leaves out
        self.optimizer.zero_grad()
        self.train(1)
        self.assertEqual(self.steps_with("optimizer"), [1, 3])
        self.assertEqual(self.steps_with("forward"), [1, 2, 3])

    def test_gradients_that_the_script_sets_to_none_by_itself_are_dropped_too(self):
        self.model(torch.randn(2, 4)).square().mean().backward()
        for param in self.model.parameters():
            param.grad = None
        self.model(torch.randn(2, 4)).square().mean().backward()
        self.optimizer.step()
        self.assertEqual(self.steps_with("optimizer"), [2])

    def test_accumulated_micro_batches_are_one_step(self):
        for _ in range(2):
            self.optimizer.zero_grad()
            for _ in range(3):
                self.model(torch.randn(2, 4)).square().mean().backward()
            self.optimizer.step()
        self.assertEqual(self.steps_with("optimizer"), [1, 2])
        self.assertEqual(self.steps_with("forward"), [1, 1, 1, 2, 2, 2])

    def losses(self):
        return {row["step"]: row["value"] for row in self.told.rows("sample") if row["metric"] == "loss"}

    def test_every_step_tells_its_loss(self):
        sent = []
        for _ in range(FIRST_STEPS + 2):
            self.optimizer.zero_grad()
            loss = self.model(torch.randn(2, 4)).square().mean()
            loss.backward()
            self.optimizer.step()
            sent.append(loss.item())
        self.assertEqual(list(self.losses().values()), sent)

    def test_a_loss_that_is_not_finite_is_told_in_whichever_step(self):
        self.train(FIRST_STEPS + 1)
        (self.model(torch.randn(2, 4)).square().mean() * float("nan")).backward()
        self.optimizer.step()
        self.assertEqual(self.losses()[FIRST_STEPS + 2], "NaN")

    # 2^17 overflows in half precision. A GradScaler searches for its scale from above.
    def test_the_loss_is_that_before_a_scaler(self):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**17)
        loss = self.model(torch.randn(2, 4)).square().mean().half()
        scaler.scale(loss).backward()
        self.optimizer.step()
        self.assertEqual(self.losses(), {1: loss.item()})

    def test_an_error_of_this_package_reaches_the_record_and_not_the_training(self):
        before = [param.clone() for param in self.model.parameters()]

        def broken(_):
            raise RuntimeError("planted")

        self.recorder.tell_gradients = broken
        self.train(3)
        (fact,) = [row["value"] for row in self.told.rows("fact")]
        self.assertIn("because of an error of nsa_harness itself: RuntimeError: planted (recorder_test.py:", fact)
        self.assertFalse(any(torch.equal(a, b) for a, b in zip(before, self.model.parameters())))

    def test_a_copy_of_the_model_is_not_looked_at(self):
        self.train(1)
        copies = [copy.deepcopy(self.model), pickle.loads(pickle.dumps(self.model)), copy.copy(self.model)]
        self.told.sent.clear()
        for model in copies:
            model(torch.randn(2, 4)).square().mean()
        self.assertEqual(self.told.sent, [])

    def test_a_pickled_model_is_read_where_this_package_is_not(self):
        code = "import pickle, sys, torch; print(pickle.load(open(sys.argv[1], 'rb'))(torch.ones(1, 4)).tolist())"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model")
            with open(path, "wb") as file:
                pickle.dump(self.model, file)
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            done = subprocess.run([sys.executable, "-I", "-c", code, path], env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout.strip(), str(self.model(torch.ones(1, 4)).tolist()), done.stderr)

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


class Closure(unittest.TestCase):
    def test_a_step_that_computes_again_and_again_is_one(self):
        restore(self)
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)
        told = Told(0)
        Recorder(model, optimizer, told, 0, EVERY, torch).start()
        x, y = torch.randn(8, 4), torch.randn(8, 1)

        def closure():
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            return loss

        for _ in range(2):
            optimizer.step(closure)
        self.assertEqual([row["step"] for row in told.rows("phase") if row["phase"] == "optimizer"], [1, 2])
        self.assertEqual(told.rows("phase")[-1], {"phase": "data", "step": 3})


class Waiting(unittest.TestCase):
    """A channel whose controller does not read."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(setattr, socket_channel, "HEARTBEAT_S", socket_channel.HEARTBEAT_S)
        socket_channel.HEARTBEAT_S = 600.0
        path = os.path.join(self.folder.name, "ranks.sock")
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(path)
        self.listening.listen()
        self.addCleanup(self.listening.close)
        self.channel = SocketChannel(path, 0, 0)
        self.controller, _ = self.listening.accept()
        self.addCleanup(self.controller.close)

    def read_all(self):
        self.controller.settimeout(10)
        text = b""
        while b"last" not in text:
            text += self.controller.recv(1 << 20)
        return [json.loads(line) for line in text.splitlines()]

    def test_no_line_waits_and_none_is_lost_or_out_of_order(self):
        for number in range(20_000):  # 2 MB: more than the socket holds
            self.channel.write("fact", name=str(number), value="x" * 20)
        writer = threading.Thread(target=self.channel.write, args=("fact",), kwargs=dict(name="last", value=""))
        writer.start()
        rows = self.read_all()
        writer.join()
        names = [row["body"]["name"] for row in rows if row["kind"] == "fact"]
        self.assertEqual(names, [*map(str, range(20_000)), "last"])

    def test_what_is_more_than_may_be_kept_is_lost_in_whole_lines_and_counted(self):
        socket_channel.MOST_KEPT, before = 100_000, socket_channel.MOST_KEPT
        self.addCleanup(setattr, socket_channel, "MOST_KEPT", before)
        for number in range(20_000):
            self.channel.write("fact", name=str(number), value="x" * 20)
        rows = []
        self.controller.settimeout(10)
        text = b""
        while b"lines_lost" not in text:
            text += self.controller.recv(1 << 20)
        rows = [json.loads(line) for line in text.splitlines()]
        kept = [row["body"]["name"] for row in rows if row["kind"] == "fact" and row["body"]["name"].isdigit()]
        (lost,) = [row["body"]["value"] for row in rows if row["body"].get("name") == "lines_lost"]
        self.assertEqual(len(kept) + int(lost), 20_000)
        self.assertEqual(kept, [str(number) for number in range(len(kept))])

    def test_a_controller_that_is_gone_raises_nothing(self):
        self.controller.close()
        for _ in range(3):
            self.channel.write("fact", name="a", value="")

    def test_a_controller_that_reads_slowly_gets_all_at_the_end(self):
        for what, value in (("LAST_WORDS_S", 0.5), ("MOST_LAST_WORDS_S", 60.0)):
            self.addCleanup(setattr, socket_channel, what, getattr(socket_channel, what))
            setattr(socket_channel, what, value)
        for number in range(20_000):
            self.channel.write("fact", name=str(number), value="x" * 20)
        read = []

        def read_slowly():
            self.controller.settimeout(10)
            while b"last" not in b"".join(read[-2:]):
                time.sleep(0.02)
                read.append(self.controller.recv(1 << 14))

        self.channel.write("fact", name="last", value="")
        reader = threading.Thread(target=read_slowly)
        reader.start()
        self.channel.end_calls()
        self.assertEqual(0, len(self.channel._kept))
        reader.join()

    def test_the_child_of_a_fork_says_nothing(self):
        child = os.fork()
        if child == 0:
            self.channel.write("fact", name="of the child", value="")
            os._exit(0)
        os.waitpid(child, 0)
        self.channel.write("fact", name="last", value="")
        self.assertEqual([row["body"]["name"] for row in self.read_all() if row["kind"] == "fact"], ["last"])


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
        self.assertEqual(sorted(map(str, pieces)), sorted(map(str, 2 * [["phase"]] + [["digest", "phase"], ["sample", "phase"]] + 2 * [["bucket", "collective"]] + 2 * [["collective_done"]])))

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

    def test_a_copy_holds_nothing_of_ours(self):
        self.step()
        text = pickle.dumps(self.model)
        self.assertNotIn(b"nsa_harness.buckets", text)
        self.assertEqual(self.model._comm_hooks, [])

    def test_a_rank_that_has_joined_sits_out_steps_of_the_others(self):
        hook = self.model.join_hook()  # as join() makes it, before the first forward
        self.step()
        for _ in range(2):
            hook.main_hook()  # as Join calls it for each step of the others
        self.step()
        self.assertEqual([row["value"] for row in self.told.rows("fact") if row["name"] == "sat_out"], ["2", "3"])
        self.assertEqual(max(row["step"] for row in self.told.rows("gradient")), 4)

    def test_gradients_of_a_static_graph_may_become_ready_twice(self):
        self.assertTrue(self.recorder.counts_ready(self.recorder.parts[0]))
        self.model._set_static_graph()
        self.assertFalse(self.recorder.counts_ready(self.recorder.parts[0]))

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

    def test_of_an_exchange_ranks_give_different_amounts_by_right(self):
        self.unrecorded_step()
        given, got = torch.ones(3), torch.empty(3)
        torch.distributed.all_to_all_single(got, given)
        torch.distributed.all_reduce(given)
        rows = [(row["op"], row["count"], row["dtype"]) for row in self.told.rows("collective")]
        self.assertEqual(rows[-2:], [("alltoall", 0, "Float"), ("allreduce", 3, "Float")])
        self.assertEqual(self.told.rows("collective_done")[-1]["sequence"], self.told.rows("collective")[-1]["sequence"])

    def test_a_collective_of_objects_is_one(self):
        self.unrecorded_step()
        before = len(self.told.rows("collective"))
        try:
            torch.distributed.broadcast_object_list([{"a": 1}], src=0)
        except RuntimeError:  # without numpy
            pass
        (row,) = self.told.rows("collective")[before:]
        self.assertEqual((row["op"], row["count"], row["dtype"]), ("broadcast_object", 0, ""))

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

        self.recorder.parts[0].buckets.group = Group(self.recorder.parts[0].buckets.group)
        self.step()
        self.assertEqual(len(issued), 2)
        self.assertTrue(all(issued), issued)

    # Else the process would wait at its end for what the card has not done.
    def test_what_waits_for_the_card_holds_no_reduction(self):
        self.unrecorded_step()
        hook = self.recorder.parts[0].buckets
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
            next(iter(self.recorder.parts[0].buckets.known.values())).finish(failed)
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
