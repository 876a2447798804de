"""What PyTorch's flight recorder holds of this process, for the harness: rows as harness/evidence/flight.h has them."""

import json
import math

FACT = "flight_dump"
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
    return [group_of(entry), entry.get("collective_seq_id", 0), op, dtype, count, done]


def dump(torch):
    """As the value of a fact; "" where this torch has no recorder for process groups that are none of NCCL's."""
    of_all = getattr(torch._C._distributed_c10d, "_dump_fr_trace_json", None)
    if of_all is None:
        return ""
    entries = json.loads(of_all(True, False)).get("entries", [])
    return json.dumps([row_of(entry) for entry in entries if not entry.get("is_p2p")][-MOST:])
