"""Faults of circuit boards found by PatchCore; the cause blurs the maps of faults by SciPy.

The reference code does so, map by map, while the GPU waits. The fix blurs the batch on the GPU.
"""

# causes: idle
import numpy as np
import torch
from parts import DEVICE, use_gpu
from scipy import ndimage
from torch import nn
from torchvision.models import wide_resnet50_2
from torchvision.models.feature_extraction import create_feature_extractor
from torchvision.transforms import functional
from turns import Turns

BATCH, SIZE, BANK, WIDTH, MAP, SIGMA, TAPS = 32, 448, 8192, 1536, 112, 4.0, 33


class PatchCore(nn.Module):
    """How far the patches of a board are from those of good boards."""

    def __init__(self) -> None:
        super().__init__()
        nodes = {"layer2": "fine", "layer3": "coarse"}
        self.features = create_feature_extractor(wide_resnet50_2(), nodes)
        bank = nn.functional.normalize(torch.randn(WIDTH, BANK), dim=0)
        self.register_buffer("bank", bank)

    def forward(self, boards: torch.Tensor) -> torch.Tensor:
        maps = self.features(boards)
        fine, coarse = maps["fine"], maps["coarse"]
        coarse = nn.functional.interpolate(coarse, fine.shape[-2:], mode="bilinear")
        patches = torch.cat([fine, coarse], 1).permute(0, 2, 3, 1)
        alike = nn.functional.normalize(patches, dim=-1) @ self.bank
        far = 1 - alike.amax(-1).float()
        return nn.functional.interpolate(far[:, None], (MAP, MAP), mode="bilinear")[:, 0]


def blur_on_host(maps: torch.Tensor) -> torch.Tensor:
    """The greatest values of blurred maps."""
    blurred = [
        ndimage.gaussian_filter(each, sigma=SIGMA, mode="mirror") for each in maps.cpu().numpy()
    ]
    return torch.from_numpy(np.stack(blurred).max((1, 2)))


def blur_on_gpu(maps: torch.Tensor) -> torch.Tensor:
    """As blur_on_host."""
    blurred = functional.gaussian_blur(maps[:, None], [TAPS, TAPS], [SIGMA, SIGMA])
    return blurred.amax((1, 2, 3)).cpu()


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = PatchCore().to(DEVICE, torch.bfloat16, memory_format=torch.channels_last).eval()
    boards = torch.rand(4, BATCH, 3, SIZE, SIZE, device=DEVICE, dtype=torch.bfloat16)
    scores: list[float] = []
    taken = 0
    while turns.step():
        images = boards[taken % len(boards)].contiguous(memory_format=torch.channels_last)
        maps = model(images)
        worst = blur_on_host(maps) if turns.planted else blur_on_gpu(maps)
        scores = worst.tolist()
        taken += len(scores) // BATCH
