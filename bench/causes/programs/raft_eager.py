"""Motion between two frames by RAFT (torchvision), its twelve updates launched from Python.

The fix replays both passes as CUDA graphs, by `torch.cuda.make_graphed_callables`.
"""
# causes: host_bound, tiny_kernels
from collections.abc import Callable
from functools import partial

import torch
from parts import DEVICE, update, use_gpu
from torch.nn.functional import grid_sample
from torchvision.models.optical_flow import raft, raft_small
from turns import Turns

BATCH, HEIGHT, BREADTH, LEVELS, RADIUS, FORGET = 2, 256, 320, 4, 3, 0.8


class Correlations(raft.CorrBlock):
    """torchvision's, but with places that are on the GPU: it copies them there for each update."""

    def __init__(self) -> None:
        super().__init__(num_levels=LEVELS, radius=RADIUS)
        beside = torch.arange(-RADIUS, RADIUS + 1.0, device=DEVICE)
        places = torch.stack(torch.meshgrid(beside, beside, indexing="ij"), -1)
        self.register_buffer("places", places[None], persistent=False)

    def index_pyramid(self, centroids_coords: torch.Tensor) -> torch.Tensor:
        batch, _, rows, columns = centroids_coords.shape
        centres = centroids_coords.permute(0, 2, 3, 1).reshape(-1, 1, 1, 2)
        found = []
        for level, volume in enumerate(self.corr_pyramid):
            places = centres / 2**level + self.places
            picked = grid_sample(volume, scale(places, volume), align_corners=True)
            found.append(picked.view(batch, rows, columns, -1))
        return torch.cat(found, -1).permute(0, 3, 1, 2).contiguous()


def scale(places: torch.Tensor, maps: torch.Tensor) -> torch.Tensor:
    """Numbers of columns and rows as grid_sample wants them, from -1 to 1."""
    rows, columns = maps.shape[-2:]
    column, row = places.unbind(-1)
    return torch.stack([2 * column / (columns - 1) - 1, 2 * row / (rows - 1) - 1], -1)


def find_loss(flows: list[torch.Tensor], true: torch.Tensor) -> torch.Tensor:
    """The error of each update, of later ones with more weight."""
    weights = [FORGET ** (len(flows) - 1 - number) for number in range(len(flows))]
    return sum(w * (flow - true).abs().mean() for w, flow in zip(weights, flows, strict=True))


def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.backends.cuda.matmul.allow_tf32 = True
    # torchvision makes it on the CPU in each forward pass, and copies it: no graph can hold that.
    raft.make_coords_grid = partial(raft.make_coords_grid, device=DEVICE)
    model = raft_small(corr_block=Correlations()).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    frames = tuple(torch.rand(BATCH, 3, HEIGHT, BREADTH, device=DEVICE) * 2 - 1 for _ in range(2))
    true = torch.randn(BATCH, 2, HEIGHT, BREADTH, device=DEVICE)
    eager: Callable[..., list[torch.Tensor]] = model.forward
    graphed: Callable[..., list[torch.Tensor]] | None = None
    while turns.step():
        if turns.planted:
            flows = eager(*frames)
        else:
            graphed = graphed or torch.cuda.make_graphed_callables(model, frames).forward
            flows = graphed(*frames)
        update(optimizer, find_loss(flows, true))
