"""Tumours in slides told by an ensemble of eight EfficientNets; the cause runs one after the other.

Each is a CUDA graph of small kernels that fill a part of the GPU. The fix replays each graph in a
stream of its own, side by side.
"""

# causes: unused_gpu
import torch
from parts import DEVICE, use_gpu
from torch import nn
from torchvision.models import efficientnet_b2
from turns import Turns

MEMBERS, BATCH, SIZE, KINDS = 8, 6, 260, 6


class Member:
    """A network, captured in a stream of its own."""

    def __init__(self, tiles: torch.Tensor) -> None:
        model = efficientnet_b2(num_classes=KINDS).to(DEVICE, torch.bfloat16)
        self.model: nn.Module = model.to(memory_format=torch.channels_last).eval()
        self.tiles, self.stream = tiles, torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.model(tiles)
        self.stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.shares = self.model(tiles).float().softmax(-1)

    def replay_beside(self) -> None:
        """Replay after what the current stream has, which does not wait."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.graph.replay()


def ask(members: list[Member], planted: bool) -> torch.Tensor:
    """The mean of what the members say."""
    for member in members:
        if planted:
            member.graph.replay()
        else:
            member.replay_beside()
    if not planted:
        for member in members:
            torch.cuda.current_stream().wait_stream(member.stream)
    return torch.stack([member.shares for member in members]).mean(0)


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    slide = torch.rand(16, BATCH, 3, SIZE, SIZE, device=DEVICE, dtype=torch.bfloat16)
    tiles = slide[0].contiguous(memory_format=torch.channels_last)
    members = [Member(tiles) for _ in range(MEMBERS)]
    counts = torch.zeros(KINDS, device=DEVICE)
    taken = 0
    while turns.step():
        tiles.copy_(slide[taken % len(slide)])
        counts += ask(members, turns.planted).sum(0)
        taken += 1
