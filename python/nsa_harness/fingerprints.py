"""What is taken in every step, recorded in full or not: a fingerprint of each tensor of the model, whether it holds an infinity or a NaN,
and the sum of its squares. It is computed where the tensor is, without a wait for the card and without a collective.
harness/fingerprint/fingerprint.cpp says what a fingerprint is.

A step sends one row of kind "digest". The last STEPS of them, tensor by tensor, are in the file `rank_N/steps.ring` of the case:

    bytes 0-7    "NSARING1"
    bytes 8-39   four numbers: offset of the first slot, bytes of a slot, STEPS, bytes of the JSON
    byte 40      JSON: {"classes": [{"name": "gradients", "tensors": [NAME, ...]}, ...]}, the classes in the order of CLASSES
    a slot       step, reductions, then for each tensor of each class fingerprint, flags, sum of squares (float64)

All numbers have 8 bytes, little-endian. Step N is in slot N % STEPS. The step's number is 0 while its slot is written."""

import ctypes
import hashlib
import json
import math
import operator
import os
import struct

from nsa_harness.guard import Hook, words_of
from nsa_harness.values import is_dtensor, local, real, tensors_in

ADDRESS = "NSA_HARNESS_SOCKET"  # path of a Unix socket in the folder of the case

CLASSES = ("gradients", "parameters", "frozen", "buffers")  # the first letter of each stands in "not_finite"
LIBRARY = "NSA_HARNESS_FINGERPRINT"  # path of the library
STEPS = 64
MAGIC = b"NSARING1"
WORDS = 3  # of a result: fingerprint, flags, sum of squares
INFINITY, NAN = 1, 2  # flags
MISSING = 4  # a flag: the tensor was not taken
KEPT = ("frozen", "buffers")  # classes that no update makes
NOT_TAKEN = 5  # a type
# Types whose numbers are looked at, as the library counts them. A complex number is two real ones.
TYPES = {"float32": 1, "complex64": 1, "float64": 2, "complex128": 2, "float16": 3, "complex32": 3, "bfloat16": 4}
ALL = (1 << 64) - 1


class Summary(ctypes.Structure):
    """Of the tensors of one class."""

    _fields_ = [("digest", ctypes.c_uint64), ("flags", ctypes.c_uint64), ("taken", ctypes.c_uint64), ("squares", ctypes.c_double)]


def library():
    """The one that NSA_HARNESS_FINGERPRINT names, or the one in the package. OSError where it cannot be loaded."""
    path = os.environ.get(LIBRARY) or os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libnsa_fingerprint.so")
    loaded = ctypes.CDLL(path)
    pointer, number = ctypes.c_void_p, ctypes.c_uint64
    loaded.nsa_fingerprints.argtypes = [pointer, number, number, pointer, pointer, ctypes.c_uint32, ctypes.c_uint32]
    loaded.nsa_fingerprints.restype = None
    loaded.nsa_summary.argtypes = [pointer, number, number, pointer]
    loaded.nsa_summary.restype = None
    loaded.nsa_chunks.argtypes = [pointer, number]
    loaded.nsa_chunks.restype = number
    return loaded


class Places:
    """Where the bytes of some tensors are: one table for the processor and one for each card that holds some of them.

    A tensor's row is its address, its bytes, its type and a number of the library's own. What is not on this device has the type
    NOT_TAKEN."""

    def __init__(self, torch):
        self.torch = torch
        self.plain = {torch.Tensor, torch.nn.Parameter}
        self.known = None  # what the tables were made of
        self.tables = {}  # device (-1: the processor) -> numbers, four of each tensor
        self.kept = []  # copies of what is not contiguous
        tensor = torch._C.TensorBase
        self.address, self.size, self.contiguous = tensor.data_ptr, operator.attrgetter("nbytes"), tensor.is_contiguous

    def find(self, tensors):
        """`tensors`: None where there is none. True if a table was made anew. What cannot be read is left out."""
        try:
            known = (list(map(self.address, tensors)), list(map(self.size, tensors)))
            if known == self.known and all(map(self.contiguous, tensors)):
                return False
        except (TypeError, RuntimeError, AttributeError):
            known = None  # one is None, or has no bytes
        self.kept.clear()
        places = [self.place(tensor) for tensor in tensors]
        self.known = None if self.kept else known
        rows = {}
        for device in {place[0] for place in places if place is not None}:
            row = (ctypes.c_uint64 * (4 * len(places)))()
            for index, place in enumerate(places):
                row[4 * index : 4 * index + 3] = place[1:] if place is not None and place[0] == device else (0, 0, NOT_TAKEN)
            rows[device] = row
        self.tables = rows
        return True

    def place(self, tensor):
        """Device, address, bytes and type; None for what has no bytes here, or has another form than a torch.Tensor."""
        try:
            if type(tensor) not in self.plain or tensor.layout is not self.torch.strided or not (tensor.is_cpu or tensor.is_cuda):
                return None
            if not self.is_dense(tensor):
                tensor = tensor.detach().contiguous()
                self.kept.append(tensor)
            device, bytes = tensor.get_device() if tensor.is_cuda else -1, tensor.nbytes
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
    """One class of tensors. `first`: of its results among those of a slot."""

    def __init__(self, name, names, first, torch):
        self.name = name
        self.names = names
        self.count = len(names)
        self.offset = 8 * (2 + WORDS * first)
        self.named = int.from_bytes(hashlib.blake2b("\n".join(names).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
        self.places = Places(torch)
        self.first_flags = None  # of the first time
        self.counts = NAN if name in KEPT else NAN | INFINITY
        self.missing = struct.pack("<QQd", 0, MISSING, 0.0) * self.count


class Ring:
    """The last steps in a file. It is written and not mapped: where the disk is full a write fails, and a store to a mapped file would end
    the process. What was written stays when the process is killed."""

    def __init__(self, folder, kinds, slot_bytes):
        classes = [{"name": kind.name, "tensors": kind.names} for kind in kinds]
        text = json.dumps({"classes": classes}, ensure_ascii=False).encode("utf-8", "surrogatepass")
        self.begin = -(-(40 + len(text)) // 4096) * 4096
        self.slot_bytes = slot_bytes
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "steps.ring")
        part = f"{path}.{os.getpid()}"  # an earlier process of this rank may still write to its own
        self.file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        os.write(self.file, MAGIC + struct.pack("<QQQQ", self.begin, slot_bytes, STEPS, len(text)) + text)
        os.ftruncate(self.file, self.begin + STEPS * slot_bytes)
        os.rename(part, path)

    def write(self, slot, step):
        at = self.begin + step % STEPS * self.slot_bytes
        slot[0] = 0
        os.pwrite(self.file, slot, at)
        os.pwrite(self.file, struct.pack("<Q", step), at)


class Step:
    """What was taken of one step so far."""

    def __init__(self, slot):
        self.slot = slot
        self.address = ctypes.addressof(slot)
        self.begin()

    def begin(self):
        self.digests = {}  # of each class that ranks must hold the same of
        self.taken = set()  # classes
        self.gradients = []  # digests, one of each reduced backward
        self.norm = -1.0
        self.not_finite = ""
        self.inputs, self.inputs_taken, self.inputs_count = 0, 0, 0

    def took(self, kind, summary, compared=True):
        """Equal digests are of tensors with equal names and equal bytes. `compared`: ranks must hold the same."""
        if not summary.taken:
            return
        name = kind.name
        digest = f"{summary.digest ^ kind.named:016x}"
        self.taken.add(name)
        if compared:
            self.digests[name] = digest
        if name == "gradients":
            self.gradients.append(digest)
            self.norm = summary.squares**0.5
        flags = summary.flags & kind.counts
        if kind.first_flags is None:  # a mask of infinities is sound, and so is a NaN in a place that nothing reads
            kind.first_flags = flags
        if name in KEPT:
            flags &= ~kind.first_flags
        if flags and name[0] not in self.not_finite:
            self.not_finite += name[0]

    def take_inputs(self, library, tables, count, summary):
        first, self.inputs_count = self.inputs_count, self.inputs_count + count
        if (table := tables.get(-1)) is not None:
            library.nsa_fingerprints(table, count, first, (ctypes.c_uint64 * (WORDS * count))(), ctypes.addressof(summary), 0, 0)
            self.inputs = (self.inputs + summary.digest) & ALL
            self.inputs_taken += summary.taken

    def end(self, kinds, reductions):
        """What was not taken in this step is marked in the slot, which holds an older one."""
        self.slot[1] = reductions
        for kind in kinds:
            if kind.name not in self.taken:
                ctypes.memmove(self.address + kind.offset, kind.missing, len(kind.missing))

    def words(self):
        """What the row says behind the counts."""
        said = ',"gradients":["' + '","'.join(self.gradients) + '"]' if self.gradients else ""
        for name in CLASSES[1:]:
            if name in self.digests:
                said += f',"{name}":"{self.digests[name]}"'
        if self.inputs_taken:
            said += f',"inputs":"{self.inputs:016x}"'
        said += f',"grad_norm":{self.norm:.9g}' if self.norm < math.inf else f',"grad_norm":"{real(self.norm)}"'
        return said + (f',"not_finite":"{self.not_finite}"' if self.not_finite else "")


class Fingerprints:
    """Counts what a step does, takes the fingerprints and tells the row. Without the library the row holds the counts alone."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.torch = recorder.torch
        self.reductions = 0  # of the whole run
        self.backwards = self.taken = 0  # of this step; updates that were taken
        self.reduced_before = 0
        self.library = self.ring = None
        for name in ("backward_begins", "backward_ends", "forward", "update_begins", "update_ends", "sits_out", "end_step"):
            setattr(self, name, recorder.guard(getattr(self, name)))

    def start(self):
        recorder, scope = self.recorder, self.recorder.scope
        self.buckets = None
        self.head = recorder.channel.head("digest", '"step":')
        by_name = operator.itemgetter(0)  # ranks may have made them in another order
        trained, frozen = sorted(scope.params, key=by_name), sorted(scope.frozen, key=by_name)
        self.params = [param for _, param in trained]
        self.frozen = [param for _, param in frozen]
        self.sharded = any(is_dtensor(param) for param in self.params + self.frozen)
        pieces = {scope.piece(param, recorder.rank).get("piece", "") for _, param in scope.params + scope.frozen}
        self.piece = "" if not pieces else pieces.pop() if len(pieces) == 1 else f"rank {recorder.rank}"
        # A module may put another tensor in the place of a buffer. What DistributedDataParallel is to ignore, ranks hold by themselves.
        ignored = getattr(recorder.model, "parameters_to_ignore", None) or ()
        self.buffers = [
            (module._buffers, key, f"{prefix}.{key}" if prefix else key)
            for prefix, module in recorder.inner.named_modules()
            for key, buffer in module._buffers.items()
            if buffer is not None and (f"{prefix}.{key}" if prefix else key) not in ignored
        ]
        self.buffers.sort(key=operator.itemgetter(2))
        trained, frozen = ([name for name, _ in params] for params in (trained, frozen))
        self.kinds, count = [], 0
        for name, names in zip(CLASSES, (trained, trained, frozen, [name for *_, name in self.buffers])):
            self.kinds.append(Kind(name, names, count, self.torch))
            count += len(names)
        self.inputs = Places(self.torch)
        self.summary = Summary()
        self.to_summary = ctypes.addressof(self.summary)
        self.step = Step((ctypes.c_uint64 * (2 + WORDS * count))())
        try:
            self.library = library()
        except OSError as error:
            recorder.not_judged(f"what happens in steps that are not recorded, because of {words_of(error)}")
            return
        self.make_ring(os.environ.get(ADDRESS))
        self.hook_buffers()
        self.hook_other_optimizers()

    def make_ring(self, address):
        """In the case that the socket at `address` belongs to."""
        if not address:
            return
        try:
            self.ring = Ring(os.path.join(os.path.dirname(address), f"rank_{self.recorder.rank}"), self.kinds, len(self.step.slot) * 8)
        except OSError as error:
            self.without_ring(error)

    def without_ring(self, error):
        self.ring = None
        self.recorder.not_judged(f"which tensors differ in steps that are not recorded, because of {words_of(error)}")

    # ---- when something is read --------------------------------------------------------------------------------------

    def hook_buffers(self):
        """At the beginning of the forward, after DistributedDataParallel has made them equal."""
        inner = self.recorder.inner
        if not self.buffers:
            return
        is_compiling = getattr(self.torch.compiler, "is_compiling", lambda: False)
        read = self.recorder.guard(self.read_buffers)

        def before(called, _):
            if called is inner and not is_compiling() and called.training and self.torch.is_grad_enabled():
                read()

        inner.register_forward_pre_hook(Hook(before))

    def read_buffers(self):
        """Where nothing makes them equal, ranks hold different ones by right: BatchNorm's statistics of their own batches."""
        synced = self.are_synced()
        if synced or "buffers" not in self.step.digests:
            self.read(self.kinds[3], [buffers.get(key) for buffers, key, _ in self.buffers], compared=synced)

    def are_synced(self):
        model = self.recorder.model
        synced = getattr(model, "will_sync_module_buffers", None)
        return synced is not None and not hasattr(model, "buffer_hook") and bool(synced())

    def forward(self, args, kwargs):
        """Of a training: what the model is called with."""
        if self.library is None or self.recorder.is_capturing():
            return
        tensors = tensors_in([*args, *kwargs.values()], self.torch)
        if tensors:
            self.inputs.find(list(map(local, tensors)))
            self.step.take_inputs(self.library, self.inputs.tables, len(tensors), self.summary)

    def backward_begins(self):
        buckets = self.recorder.communication_hook
        self.reduced_before = buckets.reduced if buckets is not None else 0

    def backward_ends(self):
        self.backwards += 1
        if self.has_reduced():
            self.read_gradients()

    def has_reduced(self):
        """Whether the backward that has ended reduced gradients. One rank has nothing to reduce: each backward counts."""
        recorder = self.recorder
        if recorder.communication_hook is not None:
            hooked = recorder.communication_hook.is_registered
            return recorder.communication_hook.reduced > self.reduced_before if hooked else recorder.model.require_forward_param_sync
        if recorder.sharded:
            return reduces(recorder.inner)
        return not self.by_script

    @property
    def by_script(self):
        """Several ranks whose gradients neither DistributedDataParallel nor fully_shard reduces: the script does so before the update."""
        recorder = self.recorder
        alone = not recorder.distributed or self.torch.distributed.get_world_size() == 1
        return not alone and recorder.communication_hook is None and not recorder.sharded

    def read_gradients(self):
        """A backward that left no gradient of this model is none of its reductions."""
        grads = [param.grad for param in self.params]
        if any(grad is not None for grad in grads) or not grads:
            self.reductions += 1
            self.read(self.kinds[0], grads)

    def update_begins(self):
        if self.by_script and self.backwards:
            self.read_gradients()

    def update_ends(self):
        found = getattr(self.recorder.optimizer, "found_inf", None)  # GradScaler gives it to an optimiser that looks at it by itself
        self.taken += 1 if found is None else not found

    def hook_other_optimizers(self):
        """Of an optimiser that watch was not given, and that holds parameters of the model, updates are counted too."""
        from torch.optim import optimizer as optimizers

        own = self.recorder.names

        def after(optimizer, *_):
            if optimizer is not self.recorder.optimizer and not self.recorder.updates:
                self.taken += any(id(param) in own for group in optimizer.param_groups for param in group["params"])

        optimizers.register_optimizer_step_post_hook(self.recorder.guard(after))

    def sits_out(self):
        """The others have reduced, and this rank with them."""
        self.reductions += 1

    def read(self, kind, tensors, from_last=False, compared=True):
        if self.library is None or not kind.count or self.recorder.is_capturing():
            return
        kind.places.find([getattr(tensor, "_local_tensor", tensor) for tensor in tensors] if self.sharded else tensors)
        table = kind.places.tables.get(-1)
        if table is not None:
            self.library.nsa_fingerprints(table, kind.count, 0, self.step.address + kind.offset, self.to_summary, from_last, 0)
            self.step.took(kind, self.summary, compared)

    # ---- the end of a step -------------------------------------------------------------------------------------------

    def end_step(self):
        recorder, step = self.recorder, self.step
        if self.taken:
            self.read(self.kinds[1], self.params, from_last=True)  # the optimiser's last ones are in a cache
            self.read(self.kinds[2], self.frozen)
        number = recorder.step
        counts = f'{number},"reductions":{self.reductions},"taken":{self.taken},"forwards":{recorder.micro + 1},"backwards":{self.backwards}'
        self.backwards = self.taken = 0
        if self.ring is not None:
            step.end(self.kinds, self.reductions)
            try:
                self.ring.write(step.slot, number)
            except OSError as error:
                self.without_ring(error)
        piece = f',"piece":{json.dumps(self.piece)}' if self.piece else ""
        channel = recorder.channel
        channel.send(f'{self.head}{counts}{step.words()}{piece}}},"t_ms":{channel.now_ms()}}}\n')
        step.begin()


def reduces(model):
    """Whether the backward of a model of fully_shard reduces: set_requires_gradient_sync(False) leaves that to a later one."""
    for module in model.modules():
        if hasattr(module, "_get_fsdp_state"):
            state = module._get_fsdp_state()
            groups = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
            if any(getattr(group, "reduce_grads", True) for group in groups if group is not None):
                return True
    return False
