"""Vibrations of machines learned without labels, with Accelerate; the cause makes the second view by NumPy.

The second view of a window is a surrogate: the same spectrum with phases moved by chance. The cause
transforms the batch on the host and copies the result. The fix does so by torch.fft on the GPU.
"""

# causes: idle, pageable_copy
import numpy as np
import torch
from accelerate import Accelerator
from parts import use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, SENSORS, LENGTH, PATCH, WIDTH, HEADS, LAYERS, STORED = 112, 3, 2048, 16, 512, 8, 6, 1024
SPREAD, HEAT = 0.5, 0.1


class Windows(Dataset[torch.Tensor]):
    """Windows of what the sensors of a machine measured, in memory."""

    def __init__(self) -> None:
        made = np.random.default_rng(0).standard_normal((STORED, SENSORS, LENGTH), np.float32)
        self.windows = torch.from_numpy(made)

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.windows[index % STORED]


class Encoder(nn.Module):
    """Patches of a window to one vector."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(SENSORS, WIDTH, PATCH, PATCH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH // PATCH, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 128)

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        x = self.first(windows).transpose(1, 2) + self.places
        return self.head(self.layers(x).mean(1))


def change_by_numpy(windows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    spectrum = np.fft.rfft(windows)
    phases = random.normal(0.0, SPREAD, spectrum.shape)
    return np.fft.irfft(spectrum * np.exp(1j * phases), LENGTH).astype(np.float32)


def change_on_gpu(windows: torch.Tensor) -> torch.Tensor:
    spectrum = torch.fft.rfft(windows)
    phases = SPREAD * torch.randn(spectrum.shape, device=windows.device)
    return torch.fft.irfft(spectrum * torch.polar(torch.ones_like(phases), phases), LENGTH)


def compare(vectors: torch.Tensor) -> torch.Tensor:
    """How well the two views of a window find each other in the batch."""
    first, second = nn.functional.normalize(vectors.float(), dim=1).chunk(2)
    target = torch.arange(len(first), device=vectors.device)
    return nn.functional.cross_entropy(first @ second.T / HEAT, target)


def run(turns: Turns) -> None:
    use_gpu(turns)
    accelerator = Accelerator(mixed_precision="bf16")
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model, optimizer = accelerator.prepare(model, optimizer)
    batches = iter(DataLoader(Windows(), BATCH, num_workers=3, pin_memory=True))
    random = np.random.default_rng(1)
    while turns.step():
        windows = next(batches)
        ready = windows.to(accelerator.device, non_blocking=True)
        if turns.planted:
            made = torch.from_numpy(change_by_numpy(windows.numpy(), random))
            other = made.to(accelerator.device)
        else:
            other = change_on_gpu(ready)
        loss = compare(model(torch.cat([ready, other])))
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
