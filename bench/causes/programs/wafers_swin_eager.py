"""Wafers inspected by a Swin V2 (torchvision), a few pictures of each of three cameras; the cause launches it from Python.

Twelve blocks of small kernels, with masks of windows made anew. The fix replays a CUDA graph.
"""

# causes: host_bound
import torch
import torchvision
from parts import DEVICE, run_eager_or_graph, use_gpu
from torch import nn
from turns import Turns

CAMERAS, PICTURES, SIDE, DEFECTS = 3, 10, 256, 24


def make_model() -> nn.Module:
    model = torchvision.models.swin_v2_t(weights=None, num_classes=DEFECTS)
    return model.eval().to(DEVICE, torch.bfloat16)


class Inspection:
    """Looks at the latest pictures of the cameras and keeps how likely each defect is."""

    def __init__(self) -> None:
        self.model = make_model()
        shape = (CAMERAS, PICTURES, 3, SIDE, SIDE)
        self.pictures = torch.randint(256, shape, dtype=torch.uint8, device=DEVICE)
        self.chances = torch.zeros(CAMERAS, PICTURES, DEFECTS, device=DEVICE)
        self.worst = torch.zeros(CAMERAS, DEFECTS, device=DEVICE)

    @torch.no_grad()
    def look(self) -> None:
        for camera in range(CAMERAS):
            pixels = (self.pictures[camera].bfloat16() - 120) / 60
            chances = self.model(pixels).float().softmax(1)
            self.chances[camera].copy_(chances)
            self.worst[camera].copy_(torch.maximum(self.worst[camera], chances.amax(0)))


def run(turns: Turns) -> None:
    use_gpu(turns)
    run_eager_or_graph(turns, Inspection().look)
