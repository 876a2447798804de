"""A plain DistributedDataParallel script of two ranks that does as SITUATION says in step EVENT_STEP, on rank EVENT_RANK (healthy, desync, hang, raises, killed,
slow), on the back end of BACKEND. With TWO_LINES it is watched. When it begins, it writes the time to the file EVENT."""

import os
import threading
import time

import torch
import torch.distributed as dist

SITUATION = os.environ["SITUATION"]
BACKEND = os.environ["BACKEND"]
EVENT_RANK = int(os.environ.get("EVENT_RANK", "1"))
EVENT_STEP = int(os.environ.get("EVENT_STEP", "6"))
STEPS = 40
SLOW_S = 16.0  # longer than what is called still: it must be seen that this rank computes


def note_event():
    with open(os.environ["EVENT"], "w", encoding="utf-8") as file:
        file.write(str(time.time()))


def act():
    note_event()
    if SITUATION == "desync":
        dist.all_reduce(torch.zeros(5, device=device))  # the other rank does not do this
    elif SITUATION == "hang":
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    elif SITUATION == "raises":
        raise ValueError("bad batch")
    elif SITUATION == "killed":
        os.kill(os.getpid(), 9)
    elif SITUATION == "slow":
        end = time.monotonic() + SLOW_S
        while time.monotonic() < end:
            sum(range(1000))


local = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local) if BACKEND == "nccl" else torch.device("cpu")
if BACKEND == "nccl":
    torch.cuda.set_device(device)
dist.init_process_group(BACKEND)
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 8))
model = torch.nn.parallel.DistributedDataParallel(model.to(device))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
if os.environ.get("TWO_LINES"):
    import nsa_harness

    nsa_harness.train.watch(model, optimizer)
data = torch.Generator().manual_seed(rank)
for step in range(1, STEPS + 1):
    x = torch.randn(16, 256, generator=data).to(device)
    y = torch.randint(0, 8, (16,), generator=data).to(device)
    if step == EVENT_STEP and rank == EVENT_RANK:
        act()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    loss.item()
    time.sleep(0.1)
dist.destroy_process_group()
