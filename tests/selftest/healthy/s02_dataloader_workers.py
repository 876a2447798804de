# launch: python
"""Classify synthetic images read by two forked DataLoader workers; validate every epoch."""
import os
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from hashes import fingerprint


class Blobs(Dataset):
    def __init__(self, n, offset):
        self.n, self.offset = n, offset

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.offset + i)
        label = i % 4
        img = 0.3 * torch.randn(1, 12, 12, generator=g)
        r, c = divmod(label, 2)
        img[:, r * 6:r * 6 + 6, c * 6:c * 6 + 6] += 0.5
        if random.random() < 0.5:  # augmentation with the worker's own seed
            img = img + 0.1 * torch.randn(1, 12, 12)
        return img, label


def seed_worker(worker_id):
    random.seed(torch.initial_seed() % 2**32)


def main():
    torch.manual_seed(2)
    train = DataLoader(Blobs(128, 0), batch_size=16, shuffle=True, num_workers=2,
                       multiprocessing_context="fork", worker_init_fn=seed_worker)
    valid = DataLoader(Blobs(32, 10_000), batch_size=32, num_workers=0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(8 * 36, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    if os.environ.get("WATCH"):
        import nsa_harness
        nsa_harness.train.watch(model, optimizer)

    for epoch in range(3):
        model.train()
        for img, label in train:
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(img), label)
            loss.backward()
            optimizer.step()
            print("s> loss", loss.item().hex())
        model.eval()
        with torch.no_grad():
            random.seed(0)
            hits = sum((model(img).argmax(1) == label).sum().item() for img, label in valid)
        print(f"s> epoch {epoch} valid accuracy {hits / 32:.3f}")
    print("s> sha256", fingerprint(model))


if __name__ == "__main__":
    main()
