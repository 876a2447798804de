# launch: torchrun 2
"""A DataLoader with two workers and a DistributedSampler that is told the epoch."""
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch


class Curves(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        x = torch.randn(8, generator=torch.Generator().manual_seed(index))
        return x, x.cumsum(0)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(33)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 8)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    watch(model, optimizer)
    sampler = DistributedSampler(Curves(), shuffle=True, seed=3)
    loader = DataLoader(Curves(), batch_size=8, sampler=sampler, num_workers=2)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    say_end(loss, model)


if __name__ == "__main__":
    main()
