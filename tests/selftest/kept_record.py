"""The record of one stored case, read and written as a recorder writes it: rows, files of tensors, and the seals of both.

A row of a file holds the file's size and hash. events.jsonl.hash holds the hash of the rows. Each line of verdicts.jsonl
names that hash, and has a hash over itself and the line before it. save() writes all of them anew, so the record is taken
as one that nobody altered."""

import array
import copy
import ctypes
import json
import math
import os
import struct
import subprocess

TWIN = -1


class Xxh128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def load_xxhash():
    try:
        library = ctypes.CDLL("libxxhash.so.0")
    except OSError as error:
        raise SystemExit(f"wanted the library libxxhash.so.0 (package libxxhash0): {error}") from error
    library.XXH3_128bits.restype = Xxh128
    library.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return library


XXHASH = load_xxhash()


def hash_hex(content):
    found = XXHASH.XXH3_128bits(content, len(content))
    return f"{found.high:016x}{found.low:016x}"


# ---- tensors ---------------------------------------------------------------------------------------------------------


class Tensor:
    def __init__(self, dtype, shape, data):
        self.dtype = dtype
        self.shape = list(shape)
        self.data = data

    def numbers(self):
        if self.dtype == "BF16":
            halves = array.array("H", self.data)
            return [struct.unpack("<f", struct.pack("<I", half << 16))[0] for half in halves]
        if self.dtype == "F16":
            return list(struct.unpack(f"<{len(self.data) // 2}e", self.data))
        return array.array({"F32": "f", "F64": "d", "I64": "q", "I32": "i", "U8": "B", "BOOL": "B"}[self.dtype], self.data).tolist()

    def with_numbers(self, numbers):
        if self.dtype == "BF16":
            words = array.array("H", [struct.unpack("<I", struct.pack("<f", one))[0] >> 16 for one in numbers])
            return Tensor(self.dtype, self.shape, words.tobytes())
        if self.dtype == "F16":
            return Tensor(self.dtype, self.shape, struct.pack(f"<{len(numbers)}e", *numbers))
        code = {"F32": "f", "F64": "d", "I64": "q", "I32": "i", "U8": "B", "BOOL": "B"}[self.dtype]
        return Tensor(self.dtype, self.shape, array.array(code, numbers).tobytes())

    def l2(self):
        return math.sqrt(math.fsum(one * one for one in self.numbers()))

    def absmax(self):
        return max(abs(one) for one in self.numbers())


def read_tensors(path):
    with open(path, "rb") as file:
        content = file.read()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    about = header.pop("__metadata__", None)
    tensors = {}
    for name, said in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = said["data_offsets"]
        tensors[name] = Tensor(said["dtype"], said["shape"], content[8 + length + begin : 8 + length + end])
    return tensors, about


def bytes_of_file(tensors, about=None):
    header = {"__metadata__": about} if about else {}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + len(tensor.data)
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(tensor.data for tensor in tensors.values())


# ---- the record ------------------------------------------------------------------------------------------------------


def real(body, key):
    """Numbers that are not finite travel as texts, which float() reads."""
    return float(body[key])


def line_of(event):
    return json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


class Record:
    def __init__(self, folder):
        """`folder`: of the case."""
        self.folder = folder
        packed = os.path.join(folder, "events.jsonl.zst")
        text = subprocess.run(["zstd", "-dcq", packed], stdout=subprocess.PIPE, check=True).stdout
        with open(os.path.join(folder, "events.jsonl.hash"), encoding="utf-8") as file:
            self.seal = file.read().strip()
        if self.seal != f"{hash_hex(text)} {len(text)}":
            raise SystemExit(f"{folder}: this script computes another hash than the program")
        self.events = [json.loads(line) for line in text.decode().split("\n") if line]

    # ---- rows ----

    def events_of(self, kind, process=None, **values):
        """`process`: a number, or a list of them."""
        wanted = [process] if isinstance(process, int) else process
        return [
            event
            for event in self.events
            if event["kind"] == kind
            and (wanted is None or event["process"] in wanted)
            and all(event["body"].get(key) == value for key, value in values.items())
        ]

    def rows(self, kind, process=None, **values):
        return [event["body"] for event in self.events_of(kind, process, **values)]

    def ranks(self):
        return sorted({event["process"] for event in self.events if event["process"] >= 0 and event["kind"] == "hello"})

    def drop(self, events):
        gone = {id(event) for event in events}
        self.events = [event for event in self.events if id(event) not in gone]

    def write_twice(self, events):
        twice = {id(event) for event in events}
        written = []
        for event in self.events:
            written += [event, copy.deepcopy(event)] if id(event) in twice else [event]
        self.events = written

    # ---- files ----

    def files(self, name, process=None, **values):
        return [(event["process"], event["body"]) for event in self.events_of("artefact", process, name=name, **values)]

    def all_files(self):
        return [(event["process"], event["body"]) for event in self.events_of("artefact")]

    def tensors(self, row):
        return read_tensors(os.path.join(self.folder, row["path"]))[0]

    def write(self, row, tensors):
        """As the recorder writes a file and tells of it."""
        path = os.path.join(self.folder, row["path"])
        content = bytes_of_file(tensors, read_tensors(path)[1])
        os.unlink(path)  # it may be a link to the file of the healthy run
        with open(path, "wb") as file:
            file.write(content)
        for same in self.rows("artefact", path=row["path"]):
            same["bytes"] = len(content)
            same["hash"] = hash_hex(content)

    # ---- seals ----

    def save(self):
        text = "".join(line_of(event) + "\n" for event in self.events).encode()
        before, self.seal = self.seal, f"{hash_hex(text)} {len(text)}"
        packed = subprocess.run(["zstd", "-3cq"], input=text, stdout=subprocess.PIPE, check=True).stdout
        for name, content in (("events.jsonl.zst", packed), ("events.jsonl.hash", (self.seal + "\n").encode())):
            with open(os.path.join(self.folder, name), "wb") as file:
                file.write(content)
        self.seal_verdicts(before)

    def seal_verdicts(self, before):
        path = os.path.join(self.folder, "verdicts.jsonl")
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        old_before = before_now = ""  # the hashes of the line before, as it was and as it is now
        sealed = []
        for line in lines:
            old = json.loads(line)["hash"]
            head = f'{{"hash":"{old}","says":'
            says = line[len(head) : -1]
            if not line.startswith(head) or hash_hex((old_before + says).encode()) != old:
                raise SystemExit(f"{path}: this script seals a line otherwise than the program")
            says = says.replace(f'"events":"{before}"', f'"events":"{self.seal}"')
            old_before, before_now = old, hash_hex((before_now + says).encode())
            sealed.append(f'{{"hash":"{before_now}","says":{says}}}\n')
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(sealed)
