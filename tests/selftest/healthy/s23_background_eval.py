# launch: python
"""A background thread evaluates (and briefly fine-tunes) copies of the model during training."""
import copy
import os
import queue
import threading

import torch
from torch import nn

from hashes import fingerprint


torch.manual_seed(23)
model = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
if os.environ.get("WATCH"):
    import nsa_harness
    nsa_harness.train.watch(model, optimizer)

valid_x = torch.randn(64, 10)
valid_y = (valid_x[:, 0] > valid_x[:, 1]).long()
jobs, results = queue.Queue(), {}


def evaluator():
    while (job := jobs.get()) is not None:
        step, snapshot = job
        snapshot.eval()
        with torch.no_grad():
            plain = nn.functional.cross_entropy(snapshot(valid_x), valid_y).item()
        tuner = torch.optim.SGD(snapshot.parameters(), lr=0.01)  # probe: one step on held-out data
        nn.functional.cross_entropy(snapshot(valid_x), valid_y).backward()
        tuner.step()
        with torch.no_grad():
            probed = nn.functional.cross_entropy(snapshot(valid_x), valid_y).item()
        results[step] = (plain, probed)


thread = threading.Thread(target=evaluator, name="evaluator")
thread.start()
for step in range(40):
    x = torch.randn(32, 10)
    y = (x[:, 0] > x[:, 1]).long()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print("s> loss", loss.item().hex())
    if step % 4 == 3:
        snapshot = copy.deepcopy(model)
        snapshot.zero_grad()
        jobs.put((step, snapshot))
jobs.put(None)
thread.join()

for step, (plain, probed) in sorted(results.items()):
    print("s> eval", step, plain.hex(), probed.hex())
print("s> sha256", fingerprint(model))
