# launch: python
"""Roll back, save, pickle, reload and resume; the optimiser is re-created in the middle."""
import copy
import os
import pickle
import tempfile

import torch
from torch import nn

from hashes import fingerprint


def train(model, optimizer, steps):
    for _ in range(steps):
        x = torch.randn(32, 5)
        loss = nn.functional.mse_loss(model(x), x.cumsum(1)[:, 2:3])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("s> loss", loss.item().hex())


def build():
    return nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 1))


torch.manual_seed(25)
model = build()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
if os.environ.get("WATCH"):
    import nsa_harness
    nsa_harness.train.watch(model, optimizer)
train(model, optimizer, 8)

# roll back to a snapshot of model and optimiser together
snapshot = copy.deepcopy((model, optimizer))
train(model, optimizer, 4)
model, optimizer = snapshot
train(model, optimizer, 4)

# second phase with another optimiser
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
train(model, optimizer, 6)
twin = pickle.loads(pickle.dumps(model))
print("s> sha256 pickled twin", fingerprint(twin))

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "checkpoint.pt")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                "rng": torch.get_rng_state()}, path)
    torch.save(model, os.path.join(folder, "whole.pt"))
    train(model, optimizer, 5)
    expected = fingerprint(model)

    state = torch.load(path)
    print("s> checkpoint keys", *sorted(state["model"]))
    resumed = build()
    resumed.load_state_dict(state["model"])
    optimizer2 = torch.optim.SGD(resumed.parameters(), lr=0.02, momentum=0.9)
    if os.environ.get("WATCH"):
        import nsa_harness
        nsa_harness.train.watch(resumed, optimizer2)
    optimizer2.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["rng"])
    train(resumed, optimizer2, 5)
    whole = torch.load(os.path.join(folder, "whole.pt"), weights_only=False)

print("s> resume is exact", fingerprint(resumed) == expected)
print("s> sha256 whole", fingerprint(whole))
print("s> sha256 resumed", fingerprint(resumed))
