"""What PyTorch's flight recorder holds of this process, for the harness: rows as harness/evidence/flight.h has them."""

import json
import math

FACT = "flight_dump"
UNREAD = "flight_unread"  # the fact that says why it could not be read
MOST = 400  # of the newest records


def group_of(entry):
    name, description = (*entry.get("process_group", []), "", "")[:2]
    return "default" if description == "default_pg" else name


def row_of(entry):
    backend, _, op = entry.get("profiling_name", "").rpartition(":")
    count = sum(math.prod(sizes) for sizes in entry.get("input_sizes", []))
    dtype = next(iter(entry.get("input_dtypes", [])), "")
    # Of Gloo nothing tells the end but that the record was put away.
    done = entry.get("state") == "completed" or (backend == "gloo" and entry.get("retired", False))
    if not isinstance(entry.get("collective_seq_id"), int):
        raise ValueError(f"collective_seq_id of {entry.get('profiling_name', '')}: found none, wanted a number")
    return [group_of(entry), entry["collective_seq_id"], op, dtype, count, done]


def dump(torch):
    """As the value of a fact; "" where this torch has no recorder for process groups that are none of NCCL's.

    Raises ValueError where it is of another form than is known."""
    of_all = getattr(torch._C._distributed_c10d, "_dump_fr_trace_json", None)
    if of_all is None:
        return ""
    held = json.loads(of_all(True, False))
    if not str(held.get("version", "")).startswith("2."):
        raise ValueError(f"version: found {held.get('version', 'none')}, wanted 2.x")
    entries = held.get("entries", [])
    return json.dumps([row_of(entry) for entry in entries if not entry.get("is_p2p")][-MOST:])
