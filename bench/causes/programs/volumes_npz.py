"""Volumes of a scanner in a 3-D network; the cause unpacks a compressed file before each step."""
# causes: idle
import tempfile
from pathlib import Path

import numpy as np
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, WIDTH = 4, 96, 8


def run(turns: Turns) -> None:
    use_gpu(turns)
    layers: list[nn.Module] = [nn.Conv3d(1, WIDTH, 3, padding=1), nn.ReLU()]
    for _ in range(2):
        layers += [nn.Conv3d(WIDTH, WIDTH, 3, padding=1), nn.BatchNorm3d(WIDTH), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Conv3d(WIDTH, 1, 1)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    path = Path(tempfile.mkdtemp()) / "volume.npz"
    scan = np.random.default_rng(0).integers(0, 40, (BATCH, 1, SIZE, SIZE, SIZE), np.int16)
    np.savez_compressed(path, scan=scan)
    ready = torch.from_numpy(scan).pin_memory()
    while turns.step():
        volumes = torch.from_numpy(np.load(path)["scan"]).pin_memory() if turns.planted else ready
        volumes = volumes.to(DEVICE, non_blocking=True).float() / 40
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(volumes).float(), volumes)
        update(optimizer, loss)
