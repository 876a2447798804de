"""What is taken in every step, recorded in full or not: a fingerprint of each tensor of the model, whether it holds an infinity or a NaN,
and the sum of its squares. It is computed where the tensor is, without a wait for the card and without a collective.
harness/fingerprint/fingerprint.cpp says what a fingerprint is.

A step sends one row of kind "digest". The last STEPS of them, tensor by tensor, are in the file `rank_N/steps.ring` of the case:

    bytes 0-7    "NSARING1"
    bytes 8-39   four numbers: offset of the first slot, bytes of a slot, STEPS, bytes of the JSON
    byte 40      JSON: {"classes": [{"name": "gradients", "tensors": [NAME, ...]}, ...]}, the classes in the order of CLASSES
    a slot       step, reductions, then for each tensor of each class fingerprint, flags, sum of squares (float64)

All numbers have 8 bytes, little-endian. Step N is in slot N % STEPS. The step's number is 0 while its slot is written."""

import array
import collections
import ctypes
import functools
import hashlib
import json
import math
import operator
import os
import struct
import threading
import weakref

from nsa_harness.cards import SMALL, Cards
from nsa_harness.guard import Guard, words_of
from nsa_harness.optimizers import params_of
from nsa_harness.socket_channel import ADDRESS
from nsa_harness.values import is_dtensor, local, real, tensors_in

CLASSES = ("gradients", "parameters", "frozen", "buffers")  # of a part; the first letter of each stands in "not_finite"
STATES = "states"  # the class of what optimisers keep: moments, copies of the weights
TURNS = 16  # a step reads every TURNS-th of these
LIBRARY = "NSA_HARNESS_FINGERPRINT"  # path of the library
WHAT = "what happens in steps that are not recorded"
STEPS = 64
MAGIC = b"NSARING1"
WORDS = 3  # of a result: fingerprint, flags, sum of squares
HERE = -1  # the processor, among devices
INFINITY, NAN = 1, 2  # flags
NOT_JOINED = "not_joined"  # a fact: nothing that we know makes the ranks hold the same
MISSING = 4  # a flag: the tensor was not taken
KEPT = ("frozen", "buffers", STATES)  # classes that may hold a NaN or an infinity which nothing reads
RETIRED = "retired"  # the class, in the file, of what a part held in whose place another one came
OWN = "own_buffers"  # of the row: a rank's own, which nothing makes equal
NOT_TAKEN = 5  # a type
# Types whose numbers are looked at, as the library counts them. A complex number is two real ones.
TYPES = {"float32": 1, "complex64": 1, "float64": 2, "complex128": 2, "float16": 3, "complex32": 3, "bfloat16": 4}
ALL = (1 << 64) - 1
VERSION = operator.attrgetter("_version")


class Summary(ctypes.Structure):
    """Of the tensors of one class."""

    _fields_ = [("digest", ctypes.c_uint64), ("flags", ctypes.c_uint64), ("taken", ctypes.c_uint64), ("squares", ctypes.c_double)]


def library():
    """The one that NSA_HARNESS_FINGERPRINT names, or the one in the package. OSError where it cannot be loaded."""
    path = os.environ.get(LIBRARY) or os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libnsa_fingerprint.so")
    loaded = ctypes.CDLL(path)
    pointer, number = ctypes.c_void_p, ctypes.c_uint64
    loaded.nsa_fingerprints.argtypes = [pointer, number, number, pointer, pointer, pointer, ctypes.c_uint32]
    loaded.nsa_fingerprints.restype = None
    loaded.nsa_summary.argtypes = [pointer, number, number, pointer]
    loaded.nsa_summary.restype = None
    loaded.nsa_collect.argtypes = [pointer, number, pointer, pointer, ctypes.c_uint32]
    loaded.nsa_collect.restype = None
    loaded.nsa_chunks.argtypes = [pointer, number]
    loaded.nsa_chunks.restype = number
    return loaded


class Places:
    """Where the bytes of some tensors are: one table for the processor and one for each card that holds some of them.

    A tensor's row is its address, its bytes, its type and a number of the library's own. What is not on this device has the type
    NOT_TAKEN. `of_model`: tensors that are at the same addresses as before have the same sizes, as those of a model do and batches do
    not."""

    def __init__(self, torch, of_model=False):
        self.torch = torch
        self.of_model = of_model
        self.plain = {torch.Tensor, torch.nn.Parameter}
        self.absent = torch.empty(0, device="cpu")  # stands for one that is not there
        self.known = None  # addresses and forms that the tables were made of
        self.tables = {}  # device -> numbers, four of each tensor
        self.sent = {}  # device -> (stream, address of the table on the card, what holds it)
        self.chunks = {}  # device -> how many its table has
        self.kept = []  # copies of tensors that are not contiguous: the tables hold their addresses
        tensor = torch._C.TensorBase
        self.address, self.device, self.contiguous = tensor.data_ptr, tensor.get_device, tensor.is_contiguous
        self.size, self.dtype = operator.attrgetter("nbytes"), operator.attrgetter("dtype")

    def find(self, tensors):
        """What cannot be read is left out. Mostly nothing has changed since the step before, or the addresses alone have."""
        try:
            addresses = list(map(self.address, tensors))
            if self.of_model and self.known is not None and addresses == self.known[0]:
                return
            sizes = list(map(self.size, tensors))
            if self.known is not None and sizes == self.known[1]:
                if addresses == self.known[0] and all(map(self.contiguous, tensors)):
                    return
                if len(self.tables) == 1 and self.forms(tensors) == self.known[2]:
                    ((_, table),) = self.tables.items()
                    memoryview(table).cast("B").cast("Q")[::4] = array.array("Q", addresses)
                    self.known = addresses, sizes, self.known[2]
                    self.sent.clear()
                    return
        except (TypeError, RuntimeError, AttributeError):
            addresses = None  # one has no bytes
        self.kept.clear()
        self.sent.clear()
        self.chunks.clear()
        places = [self.place(tensor) for tensor in tensors]
        rows = {}
        for device in {place[0] for place in places if place is not None}:
            row = (ctypes.c_uint64 * (4 * len(places)))()
            for index, place in enumerate(places):
                row[4 * index : 4 * index + 3] = place[1:] if place is not None and place[0] == device else (0, 0, NOT_TAKEN)
            rows[device] = row
        self.tables = rows
        self.known = None if self.kept or addresses is None else (addresses, sizes, self.forms(tensors) if None not in places else None)

    def forms(self, tensors):
        """What a table depends on besides addresses and sizes, of tensors of one device that are contiguous; a new object for others."""
        devices = set(map(self.device, tensors))
        if len(devices) == 1 and set(map(type, tensors)) <= self.plain and all(map(self.contiguous, tensors)):
            return devices, list(map(self.dtype, tensors))
        return object()

    def place(self, tensor):
        """Device, address, bytes and type; None for what has no bytes here, or has another form than a torch.Tensor."""
        try:
            if tensor is self.absent or type(tensor) not in self.plain or tensor.layout is not self.torch.strided:
                return None
            if not (tensor.is_cpu or tensor.is_cuda):
                return None
            if not self.is_dense(tensor):
                tensor = tensor.detach().contiguous()
                self.kept.append(tensor)
            device, bytes = tensor.get_device() if tensor.is_cuda else HERE, tensor.nbytes
            address = tensor.data_ptr()
            if bytes and not address:
                return None
            return device, address, bytes, TYPES.get(str(tensor.dtype)[6:], 0)
        except (RuntimeError, NotImplementedError, AttributeError):
            return None

    def is_dense(self, tensor):
        """Its bytes are one piece, in an order that all ranks share."""
        if tensor.is_contiguous():
            return True
        orders = {4: self.torch.channels_last, 5: self.torch.channels_last_3d}
        return tensor.dim() in orders and tensor.is_contiguous(memory_format=orders[tensor.dim()])


class Kind:
    """One class of tensors of a part, or of an optimiser, in the order of their names. `first`: of its results among those of a slot.
    `order`: their numbers in the order in which they are read."""

    def __init__(self, name, names, tensors, first, order, torch):
        self.name = self.in_file = name  # and in the file of the last steps
        self.names = names
        self.tensors = tensors  # or where they are found, of buffers and states
        self.count = len(names)
        self.offset = 8 * (2 + WORDS * first)
        # Equal digests are of tensors with equal names and equal bytes.
        text = "\n".join(names).encode("utf-8", "surrogatepass")
        self.named = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
        self.sound = None  # flags that tensors of KEPT have from the beginning: a mask may hold NaN where nothing reads it
        self.order = (ctypes.c_uint64 * len(order))(*order)
        self.places = Places(torch, of_model=True)
        self.missing = struct.pack("<QQd", 0, MISSING, 0.0) * self.count


class Ring:
    """The last steps in a file. It is written and not mapped: where the disk is full a write fails, and a store to a mapped file would end
    the process. What was written stays when the process is killed."""

    def __init__(self, folder, kinds, slot_bytes, before=None):
        """`before`: the ring in whose place it comes, which has fewer of the kinds; its steps go over."""
        classes = [{"name": kind.in_file, "tensors": kind.names} for kind in kinds]
        text = json.dumps({"classes": classes}, ensure_ascii=False).encode("utf-8", "surrogatepass")
        self.begin = -(-(40 + len(text)) // 4096) * 4096
        self.slot_bytes = slot_bytes
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "steps.ring")
        part = f"{path}.{os.getpid()}"  # an earlier process of this rank may still write to its own
        self.file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        os.write(self.file, MAGIC + struct.pack("<QQQQ", self.begin, slot_bytes, STEPS, len(text)) + text)
        os.ftruncate(self.file, self.begin + STEPS * slot_bytes)
        for number in range(STEPS if before is not None else 0):
            slot = os.pread(before.file, before.slot_bytes, before.begin + number * before.slot_bytes)
            os.pwrite(self.file, slot + struct.pack("<QQd", 0, MISSING, 0.0) * ((slot_bytes - len(slot)) // (8 * WORDS)), self.begin + number * slot_bytes)
        os.rename(part, path)
        if before is not None:
            os.close(before.file)

    def write(self, slot, step):
        at = self.begin + step % STEPS * self.slot_bytes
        slot[0] = 0
        os.pwrite(self.file, slot, at)
        os.pwrite(self.file, struct.pack("<Q", step), at)


class Results:
    """Numbers of the library: `address` is where they are."""

    def __init__(self, words):
        self.slot = (ctypes.c_uint64 * words)()
        self.address = ctypes.addressof(self.slot)


class Step(Results):
    """What was taken of one step."""

    def __init__(self, words):
        super().__init__(words)
        self.begin()

    def grow(self, words):
        """A part or an optimiser came to the training meanwhile."""
        if len(self.slot) < words:
            slot = (ctypes.c_uint64 * words)()
            ctypes.memmove(slot, self.slot, ctypes.sizeof(self.slot))
            self.slot, self.address = slot, ctypes.addressof(slot)

    def begin(self):
        self.taken = {}  # kind -> (key in the row, digest, sum of squares), as it was read last
        self.gradients = []  # digests, one of each reduced backward of a part
        self.states_of = 0  # which states were taken
        self.not_finite = ""
        self.inputs, self.inputs_taken, self.inputs_count = 0, 0, 0
        self.skipped = 0  # updates, by GradScaler on the card
        self.later = []  # functions to be called once the cards are there
        self.streams = {}  # of cards: what they wait for
        self.rooms = []  # of cards, that this step's results are in
        self.ready = True

    def took(self, kind, summary, agree=True):
        """Of one class. `agree`: ranks must hold the same."""
        if not summary.taken:
            return
        name, flags = kind.name, summary.flags
        digest = summary.digest ^ kind.named
        self.taken[kind] = name if agree else OWN, digest, summary.squares
        if name == CLASSES[0]:
            self.gradients.append(f"{digest:016x}")
        if name == STATES:
            self.states_of = (self.states_of + kind.named) & ALL
        if name in KEPT:
            kind.sound = flags if kind.sound is None else kind.sound
            flags &= NAN & ~kind.sound
        if flags and name[0] not in self.not_finite:
            self.not_finite += name[0]

    def took_inputs(self, summary):
        if summary.flags & NAN:
            return  # ranks that hold NaN do not share a batch
        self.inputs = (self.inputs + summary.digest) & ALL
        self.inputs_taken += summary.taken

    def end(self, kinds):
        """Marks what this step did not take: the slot still holds what an older step took."""
        for kind in kinds:
            if kind not in self.taken:
                ctypes.memmove(self.address + kind.offset, kind.missing, len(kind.missing))

    def words(self):
        """What the row says behind the counts."""
        said = ',"gradients":["' + '","'.join(self.gradients) + '"]' if self.gradients else ""
        digests, norm = {}, -1.0
        for key, digest, squares in self.taken.values():
            digests[key] = digests.get(key, 0) + digest
            if key == CLASSES[0]:
                norm = squares if norm == -1.0 else norm + squares
        for name in (*CLASSES[1:], OWN, STATES):
            if name in digests:
                said += f',"{name}":"{digests[name] & ALL:016x}"'
        if self.inputs_taken == self.inputs_count > 0:  # what is left of a batch may be the same on two ranks
            said += f',"inputs":"{self.inputs:016x}"'
        norm = norm**0.5 if norm >= 0.0 else norm
        said += f',"grad_norm":{norm:.9g}' if norm < math.inf else f',"grad_norm":"{real(norm)}"'
        return said + (f',"not_finite":"{self.not_finite}"' if self.not_finite else "")


class Fingerprints:
    """Counts what a step does, takes the fingerprints and tells the row. Without the library the row holds the counts alone."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.torch = recorder.torch
        self.reductions = 0  # of the whole run
        self.backwards = self.taken = 0  # of this step; updates that were taken
        self.reduced = set()  # parts, in this step
        self.updates = 0  # of the whole run
        self.library = self.ring = self.open = None
        self.cards = None  # False: they cannot be asked
        self.guard = Guard(self.failed)
        self.kinds = []  # of all parts and optimisers that there are and were, as they came
        self.of_parts = {}  # part -> its kinds, by class
        self.by_script = []  # parts that nothing joins but the script, if it does
        self.slot_words = 2
        self.unreached = {}  # ids of parameters that no backward gave a gradient so far
        self.of_optimizers = weakref.WeakKeyDictionary()  # optimiser -> its TURNS kinds
        for name in ("start", "add", "forward", "backward_ends", "update_begins", "update_ends", "sits_out", "end_step", "close", "cards_are_there"):
            setattr(self, name, self.guard(getattr(self, name)))

    def failed(self, _, error):
        """From here on nothing is counted: a count that lacks something would look like a mistake of the training."""
        self.guard.is_on = False
        self.recorder.not_judged(f"{WHAT}, because of an error of nsa_harness itself: {words_of(error)}")

    def start(self):
        recorder = self.recorder
        self.head = recorder.channel.head("digest", '"step":')
        self.piece = None
        self.inputs = Places(self.torch)
        self.step = Step(self.slot_words)
        self.open = None  # [step, its counts] that has ended, and whose row was not told
        self.made = None  # versions of the parameters at its end
        self.free = []  # steps that may be used again
        self.pending = collections.deque()  # (step, its counts) in their order
        self.telling = threading.Lock()
        try:
            self.library = library()
        except OSError as error:
            recorder.not_judged(f"{WHAT}, because of {words_of(error)}")

    def add(self, part):
        """Before its first forward, or its first update. What is known of the other parts stays where it is in a slot."""
        recorder, scope = self.recorder, part.scope
        self.by_script += [part] if part.by_script else []
        trained, frozen = (sorted(params, key=lambda pair: pair[0]) for params in (scope.params, scope.frozen))
        buffers = sorted(part.buffers().items())
        self.unreached.update((id(param), name) for name, param in trained)
        pieces = {scope.piece(param, recorder.rank).get("piece", "") for _, param in part.all_params()} | ({self.piece} - {None})
        self.piece = "" if not pieces else pieces.pop() if len(pieces) == 1 else f"rank {recorder.rank}"
        place = {name: number for number, (name, _) in enumerate(scope.params)}
        forward = sorted(range(len(trained)), key=lambda index: place[trained[index][0]])
        # Where the processor still holds them: the backward came to the first parameters last, and the optimiser to the last ones.
        orders = (forward, forward[::-1], range(len(frozen)), range(len(buffers)))
        made = self.add_kinds(list(zip(CLASSES, (trained, trained, frozen, buffers), orders)))
        self.of_parts[part] = dict(zip(CLASSES, made))
        self.all_params = [param for one in self.of_parts for _, param in one.all_params()]
        self.sharded = any(map(is_dtensor, self.all_params))
        self.made = None  # what is written to this part was not counted
        self.hook_buffers(part)
        if self.library is None:
            return
        for device in {param.get_device() for _, param in part.params if param.is_cuda}:
            self.read_card(Places(self.torch), device, (ctypes.c_uint64 * 4)(0, 0, NOT_TAKEN), 1)  # what a first launch needs
        if len(self.of_parts) == 1:
            self.step.begin()

    def add_kinds(self, given):
        """Behind all kinds so far. `given`: (class, its (name, tensor or where it is found), order) of each. Another thread may write to a step
        that waits for a card, so that one grows when it is told."""
        first, made = (self.slot_words - 2) // WORDS, []
        for name, pairs, order in given:
            made.append(Kind(name, [name for name, _ in pairs], [one for _, one in pairs], first, order, self.torch))
            first += len(pairs)
        with self.telling:
            self.kinds += made
            self.slot_words = 2 + WORDS * first
            for step in (self.step, *self.free, *(self.open or ())[:1]):
                step.grow(self.slot_words)
            if self.library is not None:
                self.make_ring(os.environ.get(ADDRESS))
        return made

    def add_states(self, optimizer):
        """What it keeps for each parameter, once that is there. Only torch's own are known to keep the same on all ranks. A parameter that no
        part has is a copy of one if there are as many of the same shapes; else ranks may hold different ones by right."""
        kinds = self.of_optimizers[optimizer] = []
        if not type(optimizer).__module__.startswith("torch.optim."):
            return
        params = params_of(optimizer)
        names = [self.recorder.names.get(id(param)) for param in params]
        are_copies = not any(names) and [param.shape for param in params] == [param.shape for _, param in self.recorder.params]
        if are_copies:
            names = [f"{name}.copy" for name, _ in self.recorder.params]
        found = []
        for name, param in zip(names, params):
            if name is None:
                continue
            found += [(name, (param, None))] if are_copies else []
            found += [(f"{name}.{key}", (param, key)) for key, one in optimizer.state.get(param, {}).items() if self.is_state(one)]
        found.sort(key=lambda pair: pair[0])
        turns = [found[turn::TURNS] for turn in range(TURNS)]
        kinds += self.add_kinds([(STATES, pairs, range(len(pairs))) for pairs in turns])

    def is_state(self, one):
        """Not a count of steps."""
        return isinstance(one, self.torch.Tensor) and one.dim() > 0

    def read_states(self):
        for optimizer, kinds in list(self.of_optimizers.items()):
            if not kinds:
                continue
            kind = kinds[self.recorder.step % TURNS]
            states, absent = optimizer.state, kind.places.absent
            self.read(kind, [param if key is None else states.get(param, {}).get(key, absent) for param, key in kind.tensors])

    def drop(self, part):
        """Another wrapper comes in its place. Its tensors stay in the slots, as those that were not read."""
        if self.open is not None:
            self.close()
        self.by_script = [one for one in self.by_script if one is not part]
        for kind in self.of_parts.pop(part, {}).values():
            kind.in_file = RETIRED

    def make_ring(self, address):
        """In the case that the socket at `address` belongs to."""
        if not address:
            return
        try:
            folder = os.path.join(os.path.dirname(address), f"rank_{self.recorder.rank}")
            self.ring = Ring(folder, self.kinds, 8 * self.slot_words, self.ring)
        except OSError as error:
            self.without_ring(error)

    def without_ring(self, error):
        self.ring = None
        self.recorder.not_judged(f"which tensors differ in steps that are not recorded, because of {words_of(error)}")

    # ---- when something is read --------------------------------------------------------------------------------------

    def hook_buffers(self, part):
        """In the class: what the model itself holds would be in its copies."""
        if not part.syncs_buffers or not self.of_parts[part]["buffers"].count:
            return
        model, kind = part.model, type(part.model)
        sync, read = kind._sync_buffers, self.torch.compiler.disable(self.guard(self.read_buffers))

        @functools.wraps(sync)
        def _sync_buffers(called):
            sync(called)
            if called is model and called.training and self.torch.is_grad_enabled():
                read(part)

        kind._sync_buffers = _sync_buffers

    def read_buffers(self, part):
        """Where nothing makes them equal, ranks may differ by right: BatchNorm's statistics of their own batches."""
        if (kinds := self.of_parts.get(part)) is None:
            return
        absent = kinds["buffers"].places.absent
        buffers = [absent if (buffer := buffers.get(key)) is None else buffer for buffers, key in kinds["buffers"].tensors]
        self.read(kinds["buffers"], buffers, agree=part.syncs_buffers or not self.recorder.several)

    def forward(self, part, args, kwargs):
        """Of a training: what the part is called with."""
        if not part.syncs_buffers:
            self.read_buffers(part)
        tells = self.library is not None and part.scope.tells_batches
        tensors = tensors_in([*args, *kwargs.values()], self.torch) if tells else []
        if not tensors:
            return
        first, self.step.inputs_count = self.step.inputs_count, self.step.inputs_count + len(tensors)
        self.take(self.inputs, list(map(local, tensors)), Results(WORDS * len(tensors)), 0, None, first, self.step.took_inputs)

    def backward_ends(self):
        self.backwards += 1
        self.read_gradients([part for part in self.of_parts if part.has_reduced()])

    def read_gradients(self, parts):
        """A backward that left no gradient of these is none of their reductions."""
        any_read = False
        for part in parts:
            if (kinds := self.of_parts.get(part)) is None:
                continue
            kind = kinds["gradients"]
            absent = kind.places.absent
            grads = [absent if (grad := param.grad) is None else grad for param in kind.tensors]
            if self.unreached:
                for param, grad in zip(kind.tensors, grads):
                    if grad is not absent:
                        self.unreached.pop(id(param), None)
            if not grads or grads[0] is not absent or any(grad is not absent for grad in grads):
                self.read(kind, grads)
                self.reduced.add(part)
                any_read = True
        self.reductions += any_read

    def update_begins(self):
        if self.open is not None:
            self.close()
        if self.by_script and self.backwards:
            self.read_gradients(self.by_script)

    def update_ends(self, optimizer, goes_on):
        """`goes_on`: of the step that has ended."""
        if optimizer not in self.of_optimizers and self.library is not None and self.recorder.strangers.are_settled(optimizer):
            self.add_states(optimizer)
        step = self.open[0] if goes_on and self.open is not None else self.step
        taken = 1
        found = getattr(optimizer, "found_inf", None)  # GradScaler gives it to an optimiser that looks at it by itself
        if isinstance(found, self.torch.Tensor):
            if not found.is_cuda:
                taken -= bool(found)
            elif not self.recorder.is_capturing():
                here = self.torch.empty(found.shape, dtype=found.dtype, device="cpu", pin_memory=True)
                here.copy_(found, non_blocking=True)
                self.wait_for([found.get_device()], lambda step: setattr(step, "skipped", step.skipped + bool(here)), step)
        if step is self.step:
            self.taken += taken
        else:
            self.open[1][2] += taken
            self.updates += taken
            self.made = None

    def never_reached(self):
        """Names of parameters that the optimiser holds and that no backward gave a gradient, where several updates were taken."""
        if self.library is None:
            return []
        at_work = [one for one in self.recorder.optimizers if self.recorder.strangers.steps_of(one) > 1]
        params = [param for optimizer in at_work for param in params_of(optimizer) if param.requires_grad]
        return sorted({self.unreached[id(param)] for param in params if id(param) in self.unreached})

    def sits_out(self):
        """The others have reduced, and this rank with them."""
        self.reductions += 1

    # ---- reading -----------------------------------------------------------------------------------------------------

    def read(self, kind, tensors, agree=True):
        if self.library is None or not kind.count:
            return
        if self.sharded:
            tensors = [getattr(tensor, "_local_tensor", tensor) for tensor in tensors]
        step = self.step
        self.take(kind.places, tensors, step, kind.offset, kind.order, 0, lambda summary: step.took(kind, summary, agree))

    def take(self, places, tensors, to, offset, order, first, took):
        """Writes the results behind `to.address`, and calls `took` with the summary: now, or once the cards are there."""
        places.find(tensors)
        count, summary = len(tensors), Summary()
        here = places.tables.get(HERE)
        if here is not None and len(places.tables) == 1:
            self.library.nsa_fingerprints(here, count, first, order, to.address + offset, ctypes.addressof(summary), 0)
            took(summary)
            return
        if not places.tables or self.recorder.is_capturing():
            return
        rooms = {device: self.read_card(places, device, table, count) for device, table in places.tables.items() if device != HERE}
        parts = [(places.tables[device], room) for device, room in rooms.items() if room is not None]
        held = None if here is None else (ctypes.c_uint64 * (WORDS * count))()  # a later backward of this step writes to the same place
        if held is not None:
            self.library.nsa_fingerprints(here, count, first, order, held, ctypes.addressof(summary), 0)

        def there(_):
            at = to.address + offset
            if held is not None:
                ctypes.memmove(at, held, ctypes.sizeof(held))
            for number, (table, room) in enumerate(parts):
                self.library.nsa_collect(table, count, room, at, held is None and number == 0)
            self.library.nsa_summary(at, count, first, ctypes.addressof(summary))
            took(summary)

        if parts:
            self.step.later.append(there)

    def read_card(self, places, device, table, count):
        """Address of the results of the table's chunks, once the card is there. None where the card cannot be asked, which is said."""
        if self.cards is False:
            return None
        try:
            self.cards = self.cards or Cards(self.torch)
            stream = self.stream_of(device)
            if (chunks := places.chunks.get(device)) is None:
                chunks = places.chunks[device] = self.library.nsa_chunks(table, count)
            bytes = ctypes.sizeof(table) if count <= SMALL else 0
            room = self.cards.room(device, bytes + 8 * WORDS * chunks)
            self.step.rooms.append(room)
            if bytes:
                address = room[1]
                ctypes.memmove(address, table, bytes)
            else:
                if (sent := places.sent.get(device)) is None or sent[0] != stream:
                    sent = places.sent[device] = stream, *self.cards.sent(device, table, count)
                address = sent[1]
            self.cards.launch(device, stream, address, count, chunks, room[1] + bytes)
            return room[1] + bytes
        except (OSError, RuntimeError) as error:
            self.recorder.not_judged(f"{WHAT}, because of {words_of(error)}")
            self.cards = False
            return None

    def stream_of(self, device):
        """Of the device, its current stream as the driver names it. The step waits for it."""
        stream = self.torch.cuda.current_stream(device)
        self.step.streams[device, stream.cuda_stream] = stream
        return stream.cuda_stream

    def wait_for(self, cards, there, step=None):
        """Calls `there(step)` once the cards have done what their current streams hold now. Without `step`: of this one."""
        current, self.step = self.step, step or self.step
        for card in cards:
            self.stream_of(card)
        self.step.later.append(there)
        self.step = current

    # ---- the end of a step -------------------------------------------------------------------------------------------

    def end_step(self):
        """Its row waits for the next step: what the script writes to a parameter by then belongs to it."""
        recorder = self.recorder
        if self.open is not None:
            self.close()
        if not self.updates and self.taken and len(self.by_script) == len(self.of_parts):
            recorder.channel.write("fact", name=NOT_JOINED, value="")
        if self.taken:
            self.read_parameters()
            self.read_states()
            self.made = self.versions()
        self.open = [self.step, [recorder.step, self.reductions, self.taken, recorder.micro + 1, self.backwards]]
        self.step = self.free.pop() if self.free else Step(self.slot_words)
        if not self.taken:
            self.close()
        self.updates += self.taken
        self.backwards = self.taken = 0
        self.reduced.clear()

    def read_parameters(self):
        for kinds in self.of_parts.values():
            for name in CLASSES[1:3]:
                self.read(kinds[name], kinds[name].tensors)

    def versions(self):
        """Torch counts what is written to a tensor, but for what is written through `data`. None where it does not count."""
        try:
            tensors = self.all_params
            if self.sharded:
                tensors = tensors + [getattr(tensor, "_local_tensor", tensor) for tensor in tensors]
            return list(map(VERSION, tensors))
        except RuntimeError:
            return None

    def close(self, is_end=False):
        """The step that ended last. `is_end`: no step follows, and after the training the script may write what it likes to its model."""
        if self.open is None:
            return
        recorder, (step, counts) = self.recorder, self.open
        self.open = None
        if counts[2] and not is_end:
            is_written = self.versions() != self.made
            if recorder.strangers.count and self.made is not None:
                recorder.strangers.written(is_written)
            if is_written:
                current, self.step = self.step, step
                self.read_parameters()
                self.step = current
        self.pending.append((step, counts))
        if step.later and not recorder.is_capturing():
            step.ready = False
            recorder.settle(functools.partial(self.cards_are_there, step), True, list(step.streams.values()))
        else:
            self.tell()

    def cards_are_there(self, step):
        """In any thread."""
        for there in step.later:
            there(step)
        for room in step.rooms if self.cards else ():
            self.cards.give_back(room)
        step.ready = True
        self.tell()

    def tell(self):
        """The steps that are ready, in their order."""
        with self.telling:
            while self.pending and self.pending[0][0].ready:
                step, counts = self.pending.popleft()
                self.tell_step(step, *counts)
                step.begin()
                self.free.append(step)

    def tell_step(self, step, number, reductions, taken, forwards, backwards):
        if len(step.slot) < self.slot_words:
            step.grow(self.slot_words)
        if self.ring is not None:
            step.end(self.kinds)
            step.slot[1] = reductions
            try:
                self.ring.write(step.slot, number)
            except OSError as error:
                self.without_ring(error)
        counts = f'{number},"reductions":{reductions},"taken":{taken - step.skipped},"forwards":{forwards},"backwards":{backwards}'
        piece = f',"piece":{json.dumps(self.piece)}' if self.piece else ""
        if step.states_of:
            piece += f',"states_of":{json.dumps(f"{step.states_of:016x} {self.piece}")}'
        channel = self.recorder.channel
        channel.put(f'{self.head}{counts}{step.words()}{piece}}},"t_ms":{channel.now_ms()}}}\n')
