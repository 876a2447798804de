"""Which rank a process is to be, said to nsa-harness before it meets its peers: launchers set RANK in the environment of each process, but the
children of torch.multiprocessing.spawn, and scripts that number their processes themselves, say it to torch.distributed alone.

The hook loads this file without the package: it imports nothing of it."""

import json
import os
import socket
import time
import urllib.parse

WORLD = "world_size"  # the fact; harness/evidence/evidence.h


def connected(path):
    """A socket's path may be longer than a socket's address (107 bytes): it is reached through its folder."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # The controller reads at intervals: what is told of a recorded step should fit.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        connection.setblocking(False)
        connection.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    except OSError as error:
        connection.close()
        raise OSError(error.errno, f"cannot reach nsa-harness: {error.strerror}", path) from None
    finally:
        os.close(folder)
    return connection


def rank_and_world(args, kwargs):
    """Of a call of torch.distributed.init_process_group(backend, init_method, timeout, world_size, rank, ...), which takes what the call does
    not say from the address, and else from the environment. (None, 0): nothing says it."""
    given = dict(zip(("backend", "init_method", "timeout", "world_size", "rank"), args))
    given.update(kwargs)
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlparse(str(given.get("init_method") or "")).query))

    def number(name, variable):
        for value in (given.get(name), query.get(name), os.environ.get(variable)):
            try:
                if value is not None and int(value) >= 0:
                    return int(value)
            except (TypeError, ValueError):
                pass
        return None

    return number("rank", "RANK"), number("world_size", "WORLD_SIZE") or 0


def announce(args, kwargs):
    rank, world = rank_and_world(args, kwargs)
    if rank is None or world < 2:
        return
    t_ms = int(time.monotonic() * 1000) - int(os.environ["NSA_HARNESS_ORIGIN_MS"])
    line = {"process": rank, "t_ms": t_ms, "kind": "fact", "body": {"name": WORLD, "value": str(world)}}
    with connected(os.environ["NSA_HARNESS_SOCKET"]) as connection:
        connection.send((json.dumps(line) + "\n").encode(), socket.MSG_NOSIGNAL)
