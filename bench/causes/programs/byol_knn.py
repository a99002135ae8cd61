"""Galaxies learned without labels (BYOL) by a CSPDarkNet (timm); the cause evaluates by NumPy in each tenth step.

It finds the nearest neighbours of some pictures among kept features, and so how many have the same
kind. The fix finds them on the GPU, and keeps the share there.
"""
# causes: idle, pageable_copy
import copy

import numpy as np
import timm
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, SIDE, FEATURES, KINDS, KEPT, ASKED, NEAR, PERIOD = 80, 128, 256, 10, 12_000, 1000, 20, 10


def make_encoder() -> nn.Sequential:
    backbone = timm.create_model("cspdarknet53", pretrained=False, num_classes=0)
    return nn.Sequential(
        backbone, nn.Linear(backbone.num_features, 1024), nn.BatchNorm1d(1024), nn.ReLU(True),
        nn.Linear(1024, FEATURES),
    )  # fmt: skip


class Byol(nn.Module):
    """An encoder that guesses what its slow copy says of another view."""

    def __init__(self) -> None:
        super().__init__()
        self.online = make_encoder()
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.guess = nn.Sequential(
            nn.Linear(FEATURES, 1024), nn.BatchNorm1d(1024), nn.ReLU(True), nn.Linear(1024, FEATURES)
        )

    def forward(self, views: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of a batch's first and second views, and the features of the first."""
        guessed = self.guess(self.online(views))
        with torch.no_grad():
            wanted = self.target(views)
        wanted = wanted.roll(len(views) // 2, 0)
        loss = 2 - 2 * nn.functional.cosine_similarity(guessed.float(), wanted.float()).mean()
        return loss, wanted[: len(views) // 2]

    @torch.no_grad()
    def follow(self) -> None:
        """Move the slow copy a little."""
        torch._foreach_lerp_(
            list(self.target.parameters()), list(self.online.parameters()), 0.004
        )


def look_again(pictures: torch.Tensor) -> torch.Tensor:
    """Two views of each picture: mirrored, brighter, noisy."""
    noise = 0.1 * torch.randn(2, *pictures.shape, device=DEVICE)
    light = 0.8 + 0.4 * torch.rand(2, len(pictures), 1, 1, 1, device=DEVICE)
    views = pictures * light + noise
    views = torch.stack([views[0], views[1].flip(-1)]).flatten(0, 1)
    return views.contiguous(memory_format=torch.channels_last)


def score_on_host(kept: torch.Tensor, kinds: torch.Tensor) -> float:
    """The share of ASKED pictures whose neighbours are mostly of their kind."""
    features, labels = kept.cpu().numpy(), kinds.cpu().numpy()
    features = features / np.linalg.norm(features, axis=1, keepdims=True)
    alike = features[:ASKED] @ features[ASKED:].T
    nearest = np.argpartition(-alike, NEAR, axis=1)[:, :NEAR]
    votes = np.zeros((ASKED, KINDS))
    np.add.at(votes, (np.arange(ASKED)[:, None], labels[ASKED:][nearest]), 1)
    return float((votes.argmax(1) == labels[:ASKED]).mean())


def score_on_gpu(kept: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
    """The same share, on the GPU."""
    features = nn.functional.normalize(kept)
    nearest = (features[:ASKED] @ features[ASKED:].T).topk(NEAR).indices
    votes = torch.zeros(ASKED, KINDS, device=DEVICE)
    votes.scatter_add_(1, kinds[ASKED:][nearest], torch.ones_like(nearest, dtype=votes.dtype))
    return (votes.argmax(1) == kinds[:ASKED]).float().mean()


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = PERIOD
    model = Byol().to(DEVICE, memory_format=torch.channels_last)
    learned = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(learned, lr=0.03, momentum=0.9, fused=True)
    pictures = torch.rand(4, BATCH, 3, SIDE, SIDE, device=DEVICE)
    kept = torch.randn(KEPT, FEATURES, device=DEVICE)
    kinds = torch.randint(KINDS, (KEPT,), device=DEVICE)
    scores: list[float | torch.Tensor] = []
    step = 0
    while turns.step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss, features = model(look_again(pictures[step % 4]))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        model.follow()
        first = step * BATCH % KEPT
        kept[first : first + BATCH] = features.float()
        step += 1
        if step % PERIOD == 0:
            scores.append((score_on_host if turns.planted else score_on_gpu)(kept, kinds))
