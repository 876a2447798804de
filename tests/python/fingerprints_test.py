"""What is taken in every step: the fingerprint against a slow one in whole numbers, the row and the file of a step in one process and on
two ranks, and that a training stays what it is to the last bit."""

import ctypes
import functools
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.dirname(os.path.abspath(__file__))]
if "NSA_HARNESS_PROGRAM" in os.environ:
    LIBRARY = os.path.join(os.path.dirname(os.environ["NSA_HARNESS_PROGRAM"]), "..", "lib", "libnsa_fingerprint.so")
    os.environ.setdefault("NSA_HARNESS_FINGERPRINT", LIBRARY)

import torch  # noqa: E402
from recorder_test import Told, restore  # noqa: E402

from nsa_harness import fingerprints  # noqa: E402
from nsa_harness.fingerprints import CLASSES, MISSING, NOT_TAKEN, STATES, STEPS, TURNS, TYPES, Summary, library  # noqa: E402
from nsa_harness.optimizers import FIRST_UPDATES  # noqa: E402
from nsa_harness.socket_channel import ADDRESS  # noqa: E402
from nsa_harness.train import FIRST_STEPS, Recorder  # noqa: E402

torch.set_num_threads(1)
DEADLINE_S = 120
WORD, HALF = (1 << 64) - 1, (1 << 32) - 1
GOLDEN = 0x9E3779B97F4A7C15
EVERY = FIRST_STEPS + 3
BLOCK = 8192  # bytes


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
    return z ^ z >> 31


KEYS = [mix(0x4E53415F4841524E + (j + 1) * GOLDEN & WORD) for j in range(1024)]


def slow(data):
    """The fingerprint of some bytes, as it is defined."""
    total = mix(len(data))
    for block, begin in enumerate(range(0, len(data), BLOCK)):
        part = data[begin : begin + BLOCK]
        words = struct.unpack(f"<{-(-len(part) // 8)}Q", part.ljust(-(-len(part) // 8) * 8, b"\0"))
        products = (((word + key) & HALF) * (((word >> 32) + (key >> 32)) & HALF) for word, key in zip(words, KEYS))
        total += mix((sum(products) & WORD) + (block + 1) * GOLDEN & WORD)
    return total & WORD


def digest(fingerprints):
    return sum(mix(value + (i + 1) * GOLDEN & WORD) for i, value in enumerate(fingerprints)) & WORD


def bytes_of(tensor):
    tensor = tensor.detach().contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.nbytes)


def told_digest(names, fingerprints):
    """As the row has it: of the names too."""
    named = hashlib.blake2b("\n".join(names).encode(), digest_size=8).digest()
    return f"{digest(fingerprints) ^ int.from_bytes(named, 'little'):016x}"


def slow_digest(named):
    """Of pairs of a name and a tensor."""
    named = sorted(named, key=lambda pair: pair[0])
    return told_digest([name for name, _ in named], [slow(bytes_of(tensor)) for _, tensor in named])


class Library(unittest.TestCase):
    def setUp(self):
        self.library = library()
        self.draw = random.Random(7)

    def taken(self, *places, plainly=False, order=None):
        """(address, bytes, type)... -> [(fingerprint, flags, squares)...] and the summary."""
        table = (ctypes.c_uint64 * (4 * len(places)))(*(value for place in places for value in (*place, 0)))
        results = (ctypes.c_uint64 * (3 * len(places)))()
        summary = Summary()
        order = order and (ctypes.c_uint64 * len(order))(*order)
        self.library.nsa_fingerprints(table, len(places), 0, order, results, ctypes.byref(summary), plainly)
        return list(struct.iter_unpack("<QQd", bytes(results))), summary

    def of_bytes(self, data, shift=0, type=0, plainly=False):
        buffer = ctypes.create_string_buffer(len(data) + 64)
        address = -(-ctypes.addressof(buffer) // 64) * 64 if len(data) + 64 > 128 else ctypes.addressof(buffer)
        address = min(address, ctypes.addressof(buffer) + 32) + shift
        ctypes.memmove(address, data, len(data))
        return self.taken((address, len(data), type), plainly=plainly)[0][0]

    def of_tensor(self, tensor, plainly=False):
        place = (tensor.data_ptr(), tensor.nbytes, TYPES.get(str(tensor.dtype)[6:], 0))
        return self.taken(place, plainly=plainly)[0][0]

    def test_it_is_what_it_is_defined_as_with_every_length_of_the_tail_and_at_every_address(self):
        lengths = [*range(140), *(BLOCK * blocks + rest for blocks in (1, 2, 5) for rest in (-9, -8, -1, 0, 1, 7, 8, 9, 131))]
        for length in lengths:
            data = self.draw.randbytes(length)
            wanted = slow(data)
            for shift in (0, self.draw.randrange(1, 31)):
                for plainly in (False, True):
                    with self.subTest(length=length, shift=shift, plainly=plainly):
                        self.assertEqual(self.of_bytes(data, shift, plainly=plainly), (wanted, 0, 0.0))

    def test_it_depends_on_the_place_of_each_word_half_and_block(self):
        data = self.draw.randbytes(3 * BLOCK + 40)
        seen = {slow(data)}

        def swapped(a, b, width):
            changed = bytearray(data)
            changed[a : a + width], changed[b : b + width] = data[b : b + width], data[a : a + width]
            return bytes(changed)

        for a, b, width in ((0, 4, 4), (0, 8, 8), (16, BLOCK + 16, 8), (0, BLOCK, BLOCK), (BLOCK, 2 * BLOCK, BLOCK), (3, 3 * BLOCK + 3, 1)):
            seen.add(self.of_bytes(swapped(a, b, width))[0])
        self.assertEqual(len(seen), 7)

    def test_one_bit_anywhere_and_zeros_at_the_end_change_it(self):
        data = self.draw.randbytes(BLOCK + 100)
        seen = {slow(data), self.of_bytes(data + b"\0")[0], self.of_bytes(data + 8 * b"\0")[0]}
        bits = self.draw.sample(range(8 * len(data)), 200)
        for bit in bits:
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            seen.add(self.of_bytes(bytes(changed))[0])
        self.assertEqual(len(seen), 203)
        self.assertEqual(len({self.of_bytes(bytes(length))[0] for length in range(0, 2 * BLOCK, 8)}), 2 * BLOCK // 8)

    def test_an_infinity_and_a_nan_are_told_wherever_they_are(self):
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64):
            for count in (1, 3, 1000, 5001):
                for value, flags in ((1.0, 0), (float("inf"), 1), (-float("inf"), 1), (float("nan"), 2)):
                    tensor = torch.randn(count, dtype=dtype)
                    tensor[self.draw.randrange(count)] = value
                    with self.subTest(dtype=dtype, count=count, value=value):
                        self.assertEqual([self.of_tensor(tensor, plainly)[1] for plainly in (False, True)], [flags, flags])
                both = torch.randn(count + 1, dtype=dtype)
                both[0], both[count] = float("nan"), -float("inf")
                self.assertEqual(self.of_tensor(both)[1], 3)

    def test_bytes_that_look_like_a_nan_are_none_where_the_type_has_none(self):
        for dtype in (torch.int32, torch.int64, torch.uint8, torch.bool):
            self.assertEqual(self.of_tensor(torch.full((3000,), -1).to(dtype))[1:], (0, 0.0))

    def test_squares_are_added_up_whatever_the_range_of_the_numbers_is(self):
        for dtype, scales in (
            (torch.float32, (0, 1e-30, 1e-15, 1, 1e15, 1e30)),
            (torch.bfloat16, (0, 1e-30, 1, 1e30)),
            (torch.float16, (0, 1e-7, 1e-4, 1, 1e4)),
            (torch.float64, (0, 1e-100, 1, 1e100)),
        ):
            for scale in scales:
                for count in (5, 2048, 5001):
                    tensor = (torch.randn(count, dtype=torch.float64) * scale).to(dtype)
                    wanted = float(tensor.double().square().sum())
                    for plainly in (False, True):
                        with self.subTest(dtype=dtype, scale=scale, count=count, plainly=plainly):
                            fingerprint, flags, squares = self.of_tensor(tensor, plainly)
                            self.assertEqual(flags, 0)
                            self.assertAlmostEqual(squares, wanted, delta=1e-5 * wanted)

    def test_numbers_whose_squares_are_too_large_are_no_infinity(self):
        self.assertEqual(self.of_tensor(torch.full((3000,), 1e200, dtype=torch.float64))[1:], (0, float("inf")))
        self.assertEqual(self.of_tensor(torch.full((3000,), 3e38))[1], 0)

    def test_the_digest_is_of_all_in_their_order(self):
        tensors = [torch.randn(count) for count in (3, 0, 5000)]
        places = [(tensor.data_ptr(), tensor.nbytes, 1) for tensor in tensors]
        wanted = [slow(bytes_of(tensor)) for tensor in tensors]
        for order in (None, (2, 0, 1)):
            results, summary = self.taken(*places, order=order)
            self.assertEqual([result[0] for result in results], wanted)
            self.assertEqual((summary.digest, summary.taken, summary.flags), (digest(wanted), 3, 0))
        self.assertNotEqual(self.taken(places[2], *places[:2])[1].digest, digest(wanted))

    def test_what_was_not_taken_is_marked(self):
        tensor = torch.ones(4)
        results, summary = self.taken((0, 0, NOT_TAKEN), (tensor.data_ptr(), 16, 1))
        self.assertEqual(results[0], (0, MISSING, 0.0))
        self.assertEqual((summary.digest, summary.taken), (digest([0, slow(bytes_of(tensor))]), 1))

    @unittest.skipUnless(shutil.which("nm"), "needs nm")
    def test_the_library_asks_for_nothing(self):
        path = os.environ["NSA_HARNESS_FINGERPRINT"]
        asked = subprocess.run(["nm", "-D", "--undefined-only", path], capture_output=True, text=True, check=True).stdout
        self.assertEqual(asked, "")


class Rows(unittest.TestCase):
    """Of one process."""

    def setUp(self):
        restore(self)
        torch.manual_seed(0)
        torch.autograd.set_detect_anomaly(False)
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.told = Told(0)

    def watch(self, model=None, optimizer=None):
        self.recorder = Recorder(model or self.model, optimizer or self.optimizer, self.told, 0, EVERY, torch)
        self.recorder.start()
        self.told.finish = functools.partial(self.recorder.fingerprints.close, is_end=True)

    def rows(self):
        self.assertEqual([row["value"] for row in self.told.rows("fact")], [])
        return self.told.rows("digest")

    def step(self, batches=1, update=True):
        self.optimizer.zero_grad()
        for _ in range(batches):
            self.model(torch.randn(4, 8)).square().mean().backward()
        if update:
            self.optimizer.step()

    def test_every_step_tells_what_it_held(self):
        self.model[0].bias.requires_grad_(False)
        self.watch()
        named = [(name, param) for name, param in self.model.named_parameters() if param.requires_grad]
        trained = [param for _, param in named]
        for number in range(1, FIRST_STEPS + 5):
            buffers = slow_digest(self.model.named_buffers())
            x = torch.randn(4, 8)
            self.optimizer.zero_grad()
            self.model(x).square().mean().backward()
            gradients = [param.grad.clone() for param in trained]
            torch.nn.utils.clip_grad_norm_(trained, 1e-3)
            self.optimizer.step()
            row = self.rows()[-1]
            self.assertAlmostEqual(row.pop("grad_norm"), float(sum(grad.double().square().sum() for grad in gradients)) ** 0.5, delta=1e-4)
            self.assertEqual(
                row,
                {
                    "step": number,
                    "reductions": number,
                    "taken": 1,
                    "forwards": 1,
                    "backwards": 1,
                    "gradients": [slow_digest((name, grad) for (name, _), grad in zip(named, gradients))],
                    "parameters": slow_digest(named),
                    "frozen": slow_digest([("0.bias", self.model[0].bias)]),
                    "buffers": buffers,
                    "inputs": f"{digest([slow(bytes_of(x))]):016x}",
                },
            )

    def test_accumulated_batches_are_backwards_of_one_step(self):
        self.watch()
        self.step(batches=3)
        (row,) = self.rows()
        self.assertEqual((row["forwards"], row["backwards"], row["reductions"], len(set(row["gradients"])), row["taken"]), (3, 3, 3, 3, 1))

    def test_a_step_that_is_left_out_takes_no_update(self):
        self.watch()
        self.step(update=False)
        self.step()
        first, second = self.rows()
        self.assertEqual((first["taken"], "parameters" in first, len(first["gradients"]), first["reductions"]), (0, False, 1, 1))
        self.assertEqual((second["taken"], second["step"], second["reductions"], second["forwards"]), (1, 2, 2, 1))

    def test_a_scaler_that_skips_takes_no_update(self):
        for fused in (False, True):
            with self.subTest(fused=fused):
                self.setUp()
                self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1, fused=fused)
                self.watch()
                scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120)
                for scale in (1e10, 1.0):
                    self.optimizer.zero_grad()
                    scaler.scale(self.model(torch.randn(4, 8)).square().mean() * scale).backward()
                    scaler.step(self.optimizer)
                    scaler.update(2.0)
                self.optimizer.zero_grad()
                rows = self.rows()
                self.assertEqual([row["taken"] for row in rows], [0, 1])
                self.assertEqual([row.get("not_finite", "") for row in rows], ["g", ""])
                self.assertIn(rows[0]["grad_norm"], ("NaN", "Infinity"))

    def test_the_classes_that_are_not_finite_are_told_in_their_order(self):
        self.watch()
        self.step()
        self.model[1].running_mean[3] = float("nan")
        self.model[2].weight.data[0, 0] = float("nan")
        self.step()
        first, second = self.rows()
        self.assertEqual((first.get("not_finite", ""), second["not_finite"], second["grad_norm"]), ("", "bgp", "NaN"))

    def test_a_closure_that_computes_again_is_one_step(self):
        self.optimizer = torch.optim.LBFGS(self.model.parameters(), max_iter=3)
        self.watch()
        x = torch.randn(4, 8)

        def closure():
            self.optimizer.zero_grad()
            loss = self.model(x).square().mean()
            loss.backward()
            return loss

        for _ in range(2):
            self.optimizer.step(closure)
        rows = self.rows()
        self.assertEqual([row["taken"] for row in rows], [1, 1])
        self.assertEqual([row["forwards"] for row in rows], [row["backwards"] for row in rows])
        self.assertEqual(rows[1]["reductions"], sum(row["backwards"] for row in rows))

    def test_updates_of_another_optimiser_of_the_model_are_counted(self):
        self.watch()
        other = torch.optim.SGD(self.model[2].parameters(), lr=0.1)
        strange = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)
        self.optimizer.zero_grad()
        self.model(torch.randn(4, 8)).square().mean().backward()
        other.step()
        strange.step()
        self.optimizer.step()
        self.assertEqual([row["taken"] for row in self.rows()], [2])

    def states(self, named, update):
        """From FIRST_UPDATES on: (step, the row's digest, the one that is wanted of its turn). `named`: (name, function that gives a tensor)."""
        named = sorted(named, key=lambda pair: pair[0])
        for number in range(1, FIRST_UPDATES + TURNS):
            update()
            row = self.told.rows("digest")[-1]
            turn = named[number % TURNS :: TURNS]
            wanted = slow_digest((name, tensor()) for name, tensor in turn) if turn and number >= FIRST_UPDATES else None
            yield number, row, wanted

    def test_a_sixteenth_of_what_an_optimiser_keeps_is_read_in_each_step(self):
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.watch()
        keys = ("exp_avg", "exp_avg_sq")
        named = [
            (f"{name}.{key}", lambda param=param, key=key: self.optimizer.state[param][key]) for name, param in self.model.named_parameters() for key in keys
        ]
        seen = set()
        for number, row, wanted in self.states(named, self.step):
            self.assertEqual(row.get("states"), wanted, number)
            self.assertEqual("states_of" in row, wanted is not None)
            seen.add(row.get("states_of"))
        self.assertEqual(len(seen - {None}), min(TURNS, len(named)))
        self.assertEqual(self.rows()[-1]["parameters"], slow_digest(self.model.named_parameters()))

    def test_copies_of_all_weights_are_read_with_what_is_kept_for_them(self):
        copies = [param.detach().clone() for param in self.model.parameters()]
        self.optimizer = torch.optim.SGD(copies, lr=0.1, momentum=0.9)
        self.watch()

        def update():
            self.model(torch.randn(4, 8)).square().mean().backward()
            for copy, param in zip(copies, self.model.parameters()):
                copy.grad, param.grad = param.grad, None
            self.optimizer.step()
            with torch.no_grad():
                for copy, param in zip(copies, self.model.parameters()):
                    param.copy_(copy)

        names = [name for name, _ in self.model.named_parameters()]
        named = [(f"{name}.copy", lambda copy=copy: copy) for name, copy in zip(names, copies)]
        named += [(f"{name}.copy.momentum_buffer", lambda copy=copy: self.optimizer.state[copy]["momentum_buffer"]) for name, copy in zip(names, copies)]
        for number, row, wanted in self.states(named, update):
            self.assertEqual(row.get("states"), wanted, number)

    def test_what_an_optimiser_that_is_none_of_torchs_keeps_is_not_read(self):
        class Own(torch.optim.AdamW):
            pass

        self.optimizer = Own(self.model.parameters(), lr=0.1)
        self.watch()
        for _ in range(FIRST_UPDATES + 2):
            self.step()
        self.assertEqual([row for row in self.rows() if "states" in row], [])

    def test_an_evaluation_is_no_forward_of_a_step(self):
        self.watch()
        self.step()
        self.model.eval()
        with torch.no_grad():
            self.model(torch.randn(4, 8))
        self.model.train()
        with torch.no_grad():
            self.model(torch.randn(4, 8))
        self.step()
        self.assertEqual([row["forwards"] for row in self.rows()], [1, 1])

    def test_strange_tensors_are_left_out_and_raise_nothing(self):
        class Own(torch.Tensor):
            pass

        model = torch.nn.Module()
        model.table = torch.nn.Embedding(5, 3, sparse=True)
        model.turned = torch.nn.Parameter(torch.randn(3, 4).t())
        model.frozen = torch.nn.Parameter(torch.randn(6).as_subclass(Own), requires_grad=False)
        model.unused = torch.nn.Parameter(torch.randn(3))
        model.register_buffer("nowhere", torch.ones(3, device="meta"))
        model.register_buffer("every_other", torch.arange(10)[::2])
        model.forward = lambda ids, ignored: model.table(ids) @ model.turned.t()
        self.model, self.optimizer = model, torch.optim.SGD(model.parameters(), lr=0.1)
        self.watch()
        for _ in range(3):
            self.optimizer.zero_grad()
            model(torch.tensor([1, 2]), {"a": [torch.ones(2).to_sparse()]}).square().mean().backward()
            self.optimizer.step()
        row = self.rows()[-1]
        names = ["table.weight", "turned", "unused"]
        parameters = dict(model.named_parameters())
        fingerprints = [slow(bytes_of(model.turned.grad)) if name == "turned" else 0 for name in names]
        self.assertEqual(row["gradients"], [told_digest(names, fingerprints)])
        self.assertEqual(row["parameters"], slow_digest([(name, parameters[name]) for name in names]))
        self.assertNotIn("frozen", row)
        self.assertEqual(row["buffers"], told_digest(["every_other", "nowhere"], [slow(bytes_of(model.every_other)), 0]))
        self.assertNotIn("inputs", row)  # what is left of a batch may be the same on two ranks

    def test_what_the_script_does_to_a_parameter_by_the_next_forward_is_in_the_row_of_the_update(self):
        self.watch()
        self.step()
        with torch.no_grad():
            self.model[2].weight[0, 0] += 1
        written = slow_digest(self.model.named_parameters())
        self.step(update=False)
        self.assertEqual(self.rows()[0]["parameters"], written)

    def test_what_the_script_does_to_a_parameter_after_its_last_step_is_in_no_row(self):
        self.watch()
        self.step()
        made = slow_digest(self.model.named_parameters())
        with torch.no_grad():
            self.model[2].weight.zero_()
        self.assertEqual(self.rows()[0]["parameters"], made)

    def test_an_update_whose_model_is_not_called_before_the_next_one_is_read_before_it(self):
        self.watch()
        self.step()
        first = slow_digest(self.model.named_parameters())
        self.optimizer.step()
        self.assertEqual([row["parameters"] for row in self.rows()], [first, slow_digest(self.model.named_parameters())])

    def test_a_tensor_in_the_place_of_another_one_is_seen(self):
        self.watch()
        self.step()
        self.model[2].weight.data = torch.randn(3, 8)
        self.model[1].running_mean = torch.randn(8)
        buffers = slow_digest(self.model.named_buffers())
        self.step()
        row = self.rows()[-1]
        self.assertEqual((row["parameters"], row["buffers"]), (slow_digest(self.model.named_parameters()), buffers))

    def test_an_error_of_ours_ends_the_counting_and_not_the_training(self):
        self.watch()
        self.step()
        self.recorder.fingerprints.read_gradients = None
        before = self.model[2].weight.clone()
        for _ in range(2):
            self.step()
        self.assertFalse(torch.equal(before, self.model[2].weight))
        (fact,) = [row["value"] for row in self.told.rows("fact")]
        self.assertIn("what happens in steps that are not recorded, because of an error of nsa_harness itself: TypeError", fact)
        self.assertEqual([row["step"] for row in self.told.rows("digest")], [1])
        self.assertEqual(len([row for row in self.told.rows("phase") if row["phase"] == "optimizer"]), 3)

    def test_what_is_compiled_whole_stays_so(self):
        self.watch()
        compiled = torch.compile(self.model, fullgraph=True, backend="eager")
        self.optimizer.zero_grad()
        compiled(torch.randn(4, 8)).square().mean().backward()
        self.optimizer.step()
        (row,) = self.rows()
        self.assertEqual((row["forwards"], row["taken"], "buffers" in row, "inputs" in row), (1, 1, True, True))

    def test_a_library_that_is_missing_is_said_and_the_counts_are_told(self):
        before = os.environ["NSA_HARNESS_FINGERPRINT"]
        self.addCleanup(os.environ.__setitem__, "NSA_HARNESS_FINGERPRINT", before)
        os.environ["NSA_HARNESS_FINGERPRINT"] = "/nowhere.so"
        self.watch()
        self.step()
        (fact,) = [row["value"] for row in self.told.rows("fact")]
        self.assertTrue(fact.startswith("what happens in steps that are not recorded, because of OSError: /nowhere.so"), fact)
        (row,) = self.told.rows("digest")
        self.assertEqual(row, {"step": 1, "reductions": 1, "taken": 1, "forwards": 1, "backwards": 1, "grad_norm": -1})


class Late(unittest.TestCase):
    """A card that is far behind, played by the processor: rows come late, in order, and say what the tensors held when they were read."""

    def test_rows_of_a_card_are_those_of_the_processor(self):
        test = self

        class Event:
            def record(self, stream):
                pass

            def query(self):
                return test.there

        class Card:
            def __init__(self, torch):
                self.library = library()

            def room(self, device, bytes):
                held = ctypes.create_string_buffer(bytes)
                test.rooms[ctypes.addressof(held)] = held
                return bytes, ctypes.addressof(held)

            def give_back(self, room):
                test.assertTrue(test.there)
                del test.rooms[room[1]]

            def sent(self, device, table, count):
                held = ctypes.create_string_buffer(bytes(table))
                return ctypes.addressof(held), held

            def launch(self, device, stream, table, count, chunks, results):
                """All of a tensor in its first chunk."""
                found = (ctypes.c_uint64 * (3 * count))()
                self.library.nsa_fingerprints(table, count, 0, None, found, ctypes.byref(Summary()), 0)
                ctypes.memset(results, 0, 24 * chunks)
                rows = list(struct.iter_unpack("<4Q", ctypes.string_at(table, 32 * count)))
                for number, (_, size, type, first) in enumerate(rows):
                    if type != NOT_TAKEN:
                        found[3 * number] = found[3 * number] - mix(size) & WORD
                        ctypes.memmove(results + 24 * first, ctypes.addressof(found) + 24 * number, 24)

        place = fingerprints.Places.place

        def on_card(places, tensor):  # all but the vectors
            found = place(places, tensor)
            return (0, *found[1:]) if found is not None and tensor.dim() != 1 else found

        rows, rings, self.rooms = [], [], {}
        for is_card in (False, True):
            self.there = False
            restore(self)
            folder = tempfile.mkdtemp()
            self.addCleanup(shutil.rmtree, folder)
            os.environ[ADDRESS] = os.path.join(folder, "ranks.sock")
            self.addCleanup(os.environ.pop, ADDRESS, None)
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)  # it keeps more from its first step on
            told = Told(0)
            recorder = Recorder(model, optimizer, told, 0, EVERY, torch)
            recorder.start()
            told.finish = functools.partial(recorder.fingerprints.close, is_end=True)
            if is_card:
                stream = types.SimpleNamespace(cuda_stream=7)
                for where, name, value in (
                    (torch.cuda, "Event", Event),
                    (torch.cuda, "current_stream", lambda device: stream),
                    (fingerprints, "Cards", Card),
                    (fingerprints.Places, "place", on_card),
                ):
                    self.addCleanup(setattr, where, name, getattr(where, name))
                    setattr(where, name, value)
            for number in range(6):
                optimizer.zero_grad()
                for _ in range(2):
                    model(torch.randn(4, 8)).square().mean().backward()
                optimizer.step()
                if is_card:
                    self.assertEqual(told.rows("digest"), [])
            recorder.fingerprints.close()
            self.there = True
            recorder.settle_all()
            self.assertEqual((told.rows("fact"), self.rooms), ([], {}))
            rows.append(told.rows("digest"))
            rings.append(ring_of(os.path.join(folder, "rank_0", "steps.ring")))
        self.assertEqual(len(rows[0]), 6)
        self.assertEqual(rows[0], rows[1])
        self.assertEqual(["states" in row for row in rows[0]], [FIRST_UPDATES <= number < 6 for number in range(1, 7)])  # six tensors: none in turn 6
        self.assertEqual(sorted(rings[0][1]), list(range(1, 7)))
        self.assertEqual(rings[0], rings[1])


def ring_of(path):
    """{class: names} and {step: (reductions, {class: [(fingerprint, flags, squares)]})}."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"NSARING1"
    begin, size, slots, length = struct.unpack_from("<4Q", data, 8)
    told = [(row["name"], row["tensors"]) for row in json.loads(data[40 : 40 + length])["classes"]]
    classes = {name: [] for name, _ in told}  # of several parts and turns together
    for name, tensors in told:
        classes[name] += tensors
    steps = {}
    for slot in range(slots):
        at = begin + slot * size
        step, reductions = struct.unpack_from("<QQ", data, at)
        results = list(struct.iter_unpack("<QQd", data[at + 16 : at + size]))
        of_class = {name: [] for name in classes}
        for name, tensors in told:
            of_class[name] += results[: len(tensors)]
            results = results[len(tensors) :]
        if step:
            steps[step] = (reductions, of_class)
    return classes, steps


# Trains on every rank for argv[2] steps. MORE stands in a step, before the backward.
SCRIPT = """
import os, sys, time
import torch, torch.distributed as dist
import nsa_harness
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
if int(os.environ["WORLD_SIZE"]) > 1:
    dist.init_process_group("gloo", init_method="file://" + sys.argv[1] + "/store", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 200), torch.nn.BatchNorm1d(200), torch.nn.Linear(200, 200), torch.nn.Linear(200, 4))
model[0].bias.requires_grad_(False)
if dist.is_initialized() and "DDP" in os.environ:
    model = torch.nn.parallel.DistributedDataParallel(model)
if "SHARDED" in os.environ:
    from torch.distributed.fsdp import fully_shard
    for module in (model[0], model[2], model):
        fully_shard(module)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
nsa_harness.train.watch(model, optimizer)
draw = torch.Generator().manual_seed(1 + rank)
for step in range(1, int(sys.argv[2]) + 1):
    optimizer.zero_grad()
    MORE
    loss = model(torch.randn(8, 16, generator=draw)).square().mean()
    loss.backward()
    if dist.is_initialized() and not {"DDP", "SHARDED"} & set(os.environ):
        for param in model.parameters():
            if param.grad is not None:
                dist.all_reduce(param.grad)
    optimizer.step()
    print("loss", step, loss.item().hex(), flush=True)
for name, value in model.state_dict().items():
    value = value.to_local() if hasattr(value, "to_local") else value
    print("value", name, value.double().sum().item().hex(), flush=True)
"""
ACCUMULATES = """
    with model.no_sync():
        for _ in range(2):
            model(torch.randn(8, 16, generator=draw)).square().mean().backward()
"""


class Controller:
    """Takes what ranks tell."""

    def __init__(self, folder):
        self.folder = folder
        self.path = os.path.join(folder, "ranks.sock")
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(self.path)
        self.listening.listen()
        self.texts = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                rank, _ = self.listening.accept()
            except OSError:
                return
            self.texts.append([])
            threading.Thread(target=self.read, args=(rank, self.texts[-1]), daemon=True).start()

    def read(self, rank, text):
        while data := rank.recv(1 << 16):
            text.append(data.decode())

    def rows(self, kind, rank):
        lines = [line for text in self.texts for line in "".join(text).splitlines(keepends=True) if line.endswith("\n")]
        return [row["body"] for row in map(json.loads, lines) if row["kind"] == kind and row["process"] == rank]


class Ranks(unittest.TestCase):
    """Processes of their own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.controller = Controller(self.folder)
        self.addCleanup(self.controller.listening.close)

    def start(self, more="pass", steps=12, ranks=2, watched=True, **variables):
        script = os.path.join(self.folder, "train.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(SCRIPT.replace("    MORE", more if more.startswith("\n") else "    " + more))
        store = os.path.join(self.folder, "store")
        if os.path.exists(store):
            os.remove(store)
        started = []
        for rank in range(ranks):
            environment = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"), RANK=str(rank), WORLD_SIZE=str(ranks), **variables)
            if watched:
                environment.update(NSA_HARNESS_SOCKET=self.controller.path, NSA_HARNESS_ORIGIN_MS="0")
            command = [sys.executable, "-W", "ignore", script, self.folder, str(steps)]
            started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            self.addCleanup(started[-1].kill)
        return started

    def train(self, *args, **variables):
        started = self.start(*args, **variables)
        outputs = [process.communicate(timeout=DEADLINE_S) for process in started]
        for process, (_, errors) in zip(started, outputs):
            self.assertEqual(process.returncode, 0, errors)
        return [out for out, _ in outputs]

    def ring(self, rank):
        return ring_of(os.path.join(self.folder, f"rank_{rank}", "steps.ring"))

    def both(self, **variables):
        """Rows of the two ranks, which are checked to agree in what must agree."""
        rows = [self.controller.rows("digest", rank) for rank in range(2)]
        self.assertEqual([row["value"] for rank in range(2) for row in self.controller.rows("fact", rank)], [])
        self.assertEqual(len(rows[0]), 12)
        for first, second in zip(*rows):
            self.assertNotEqual(first.pop("inputs"), second.pop("inputs"))
            self.assertEqual(first, second)
        return rows[0]

    def test_two_ranks_tell_the_same_and_train_as_they_do_alone(self):
        alone = self.train(watched=False, DDP="1")
        self.assertEqual(self.train(DDP="1"), alone)
        rows = self.both()
        self.assertEqual([row["reductions"] for row in rows], list(range(1, 13)))
        self.assertEqual({(row["taken"], row["forwards"], row["backwards"], len(row["gradients"])) for row in rows}, {(1, 1, 1, 1)})
        for name in ("parameters", "buffers"):
            self.assertEqual(len({row[name] for row in rows}), 12)
        self.assertEqual(len({row["frozen"] for row in rows}), 1)
        classes, steps = self.ring(0)
        self.assertEqual(list(classes), [*CLASSES, STATES])
        self.assertEqual(classes["gradients"], classes["parameters"])
        self.assertEqual((classes["frozen"], classes["buffers"]), (["0.bias"], ["1.num_batches_tracked", "1.running_mean", "1.running_var"]))
        self.assertEqual(sorted(steps), list(range(1, 13)))
        self.assertEqual(steps, self.ring(1)[1])
        for row in rows:
            reductions, results = steps[row["step"]]
            self.assertEqual(reductions, row["reductions"])
            for name in CLASSES:
                told = row[name][-1] if name == "gradients" else row[name]
                self.assertEqual(told_digest(classes[name], [result[0] for result in results[name]]), told)

    def test_batches_without_a_reduction_are_backwards_and_no_reductions(self):
        alone = self.train(ACCUMULATES, watched=False, DDP="1")
        self.assertEqual(self.train(ACCUMULATES, DDP="1"), alone)
        rows = self.both()
        self.assertEqual([row["reductions"] for row in rows], list(range(1, 13)))
        self.assertEqual({(row["forwards"], row["backwards"], len(row["gradients"])) for row in rows}, {(3, 3, 1)})
        self.assertEqual(len({row["buffers"] for row in rows}), 12)  # of the first batch, before which they were made equal

    def test_gradients_that_the_script_reduces_are_read_before_the_update(self):
        self.train()
        rows = [self.controller.rows("digest", rank) for rank in range(2)]
        for first, second in zip(*rows):
            self.assertEqual((first["gradients"], first["reductions"]), (second["gradients"], second["reductions"]))
            self.assertEqual(first["reductions"], first["step"])

    def test_pieces_of_a_sharded_model_are_read_where_they_are(self):
        wait = "model.set_requires_gradient_sync(False); model(torch.randn(8, 16, generator=draw)).square().mean().backward()"
        wait += "; model.set_requires_gradient_sync(True)"
        alone = self.train(wait, watched=False, SHARDED="1")
        self.assertEqual(self.train(wait, SHARDED="1"), alone)
        rows = [self.controller.rows("digest", rank) for rank in range(2)]
        for rank in range(2):
            self.assertEqual({row["piece"] for row in rows[rank]}, {str(rank)})
            self.assertEqual([row["reductions"] for row in rows[rank]], list(range(1, 13)))
            self.assertEqual({(row["backwards"], len(row["gradients"]), row["taken"]) for row in rows[rank]}, {(2, 1, 1)})
            self.assertEqual(len({row["parameters"] for row in rows[rank]}), 12)
            self.assertNotIn("buffers", rows[rank][0])  # nothing makes the running statistics equal
        self.assertEqual(set(self.ring(0)[0]["gradients"]), {"0.weight", "1.weight", "1.bias", "2.weight", "2.bias", "3.weight", "3.bias"})

    def test_a_process_that_is_killed_leaves_its_last_steps(self):
        (process,) = self.start("time.sleep(0.005)", steps=10_000, ranks=1)
        end = time.monotonic() + DEADLINE_S
        while len(self.controller.rows("digest", 0)) < STEPS + 20:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        time.sleep(0.2)
        rows = {row["step"]: row for row in self.controller.rows("digest", 0)}
        classes, steps = self.ring(0)
        last = max(steps)
        self.assertLessEqual(set(range(last - STEPS + 2, last)), set(steps))
        for step in set(steps) & set(rows):
            for name in ("parameters", "buffers"):
                self.assertEqual(told_digest(classes[name], [result[0] for result in steps[step][1][name]]), rows[step][name])

    @unittest.skipUnless(os.geteuid() == 0, "a small disk needs root")
    def test_a_full_disk_takes_the_file_and_not_the_training(self):
        disk = os.path.join(self.folder, "rank_0")
        os.mkdir(disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        self.train(steps=70, ranks=1)
        self.assertEqual(len(self.controller.rows("digest", 0)), 70)
        (fact,) = [row["value"] for row in self.controller.rows("fact", 0) if row["name"] == "not_judged"]
        self.assertIn("which tensors differ in steps that are not recorded, because of OSError", fact)


if __name__ == "__main__":
    unittest.main()
