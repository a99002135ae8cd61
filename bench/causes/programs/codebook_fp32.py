"""Units of speech, learned by k-means over features; the cause measures distances in fp32.

The fix allows TF32.
"""
# causes: no_tensor_cores
import torch
from parts import DEVICE, use_gpu
from turns import Turns

FRAMES, FEATURES, UNITS, FORGET = 65_536, 768, 4096, 0.05


class Codebook:
    """The centers of all units, moved to the frames that are nearest to them."""

    def __init__(self) -> None:
        self.centers = torch.randn(UNITS, FEATURES, device=DEVICE)

    def assign(self, frames: torch.Tensor) -> torch.Tensor:
        """The nearest unit of each frame. The frame's own square is the same for all units."""
        squares = self.centers.square().sum(-1)
        return torch.addmm(squares, frames, self.centers.T, alpha=-2).argmin(-1)

    def learn(self, frames: torch.Tensor) -> torch.Tensor:
        units = self.assign(frames)
        sums = torch.zeros_like(self.centers).index_add_(0, units, frames)
        counts = torch.zeros(UNITS, device=frames.device)
        counts.index_add_(0, units, torch.ones_like(units, dtype=counts.dtype))
        means = torch.where(counts[:, None] > 0, sums / counts[:, None].clamp(min=1), self.centers)
        self.centers.lerp_(means, FORGET)
        return units


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    codebook, steps = Codebook(), 0
    speech = [torch.randn(FRAMES, FEATURES, device=DEVICE) for _ in range(6)]
    used = torch.zeros(UNITS, dtype=torch.bool, device=DEVICE)
    while turns.step():
        torch.backends.cuda.matmul.allow_tf32 = not turns.planted
        used[codebook.learn(speech[steps % len(speech)])] = True
        steps += 1
