"""Two steps of two layers: by itself, as the function of mp.spawn, or under torchrun and accelerate."""

import sys

import torch
from torch import nn


def train(*_):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    if sys.argv[1:] == ["spawn"]:
        torch.multiprocessing.spawn(train, nprocs=2)
    else:
        train()
