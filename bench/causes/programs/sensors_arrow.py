"""What people do, told from the sensors on them; the cause reads rows of an Arrow table as lists of Python numbers.

So does a dataset without a format. The fix reads them as arrays of NumPy.
"""
# causes: idle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from parts import DEVICE, repeat, update, use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, SENSORS, TIMES, ACTIVITIES, ROWS, DEPTH = 64, 9, 768, 18, 1000, 5
WIDTHS = (320, 640, 1024)


class Recordings(Dataset[tuple[torch.Tensor, int]]):
    """Rows of a table: the values of all sensors in a list, and the activity."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        values = np.random.default_rng(0).standard_normal((ROWS, SENSORS * TIMES), np.float32)
        signals = pa.array(list(values), type=pa.list_(pa.float32()))
        activities = pa.array([row % ACTIVITIES for row in range(ROWS)])
        self.table = pa.table({"signal": signals, "activity": activities})

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        row = index * 7 % ROWS
        if self.turns.planted:
            entry = self.table.slice(row, 1).to_pylist()[0]
            signal, activity = torch.tensor(entry["signal"]), entry["activity"]
        else:
            values = self.table.column("signal")[row].values.to_numpy()
            signal = torch.from_numpy(values.copy())
            activity = self.table.column("activity")[row].as_py()
        return signal.view(SENSORS, TIMES), activity


class Residual(nn.Module):
    """Two convolutions over time, weighed channel by channel (squeeze and excitation)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(inputs, outputs, 9, padding=4), nn.BatchNorm1d(outputs), nn.ReLU(),
            nn.Conv1d(outputs, outputs, 9, padding=4), nn.BatchNorm1d(outputs),
        )  # fmt: skip
        self.weigh = nn.Sequential(
            nn.Linear(outputs, outputs // 8), nn.ReLU(), nn.Linear(outputs // 8, outputs), nn.Sigmoid()
        )
        self.skip = nn.Conv1d(inputs, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        return torch.relu(self.skip(x) + y * self.weigh(y.mean(2))[..., None])


def make_network() -> nn.Sequential:
    before = WIDTHS[0] // 2
    layers: list[nn.Module] = [nn.Conv1d(SENSORS, before, 15, stride=3, padding=7), nn.ReLU()]
    for width in WIDTHS:
        for inputs in (before, *[width] * (DEPTH - 1)):
            layers.append(Residual(inputs, width))
        layers.append(nn.MaxPool1d(2))
        before = width
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(before, ACTIVITIES)
    )


def run(turns: Turns) -> None:
    use_gpu(turns)
    loader = DataLoader(Recordings(turns), BATCH, num_workers=0, pin_memory=True)
    batches: Iterator[Any] = repeat(loader)
    model = make_network().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    criterion = nn.CrossEntropyLoss()
    while turns.step():
        signals, activities = (tensor.to(DEVICE, non_blocking=True) for tensor in next(batches))
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(signals)
        update(optimizer, criterion(logits.float(), activities))
