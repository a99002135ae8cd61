"""A SegFormer under DDP; the cause gathers each batch's maps from all ranks as Python objects.

So `all_gather_object` does for a metric of the training. The fix counts pairs of classes on the
GPU, and adds up what the ranks counted at the end of an epoch.
"""
# causes: idle, synchronization, pageable_copy

import numpy as np
import torch
from parts import DEVICE, update, use_ranks
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from transformers import SegformerConfig, SegformerForSemanticSegmentation
from turns import Turns

RANKS = 2
BATCH, SIZE, CLASSES = 16, 512, 32


def make_model() -> nn.Module:
    """A SegFormer B1."""
    config = SegformerConfig(
        depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 320, 512], decoder_hidden_size=256,
        num_labels=CLASSES, drop_path_rate=0.0,
    )  # fmt: skip
    return SegformerForSemanticSegmentation(config).to(DEVICE)


def count_gathered(found: torch.Tensor, right: torch.Tensor, pairs: np.ndarray) -> None:
    """Add all ranks' maps to the pairs of classes."""
    of_ranks: list[dict[str, np.ndarray]] = [{} for _ in range(RANKS)]
    maps = {"found": found.cpu().numpy(), "right": right.cpu().numpy()}
    distributed.all_gather_object(of_ranks, maps)
    for each in of_ranks:
        both = CLASSES * each["right"].ravel() + each["found"].ravel()
        pairs += np.bincount(both, minlength=CLASSES * CLASSES)


def count_here(found: torch.Tensor, right: torch.Tensor, pairs: torch.Tensor) -> None:
    """Add this rank's maps to the pairs of classes."""
    both = (CLASSES * right + found).flatten()
    pairs.index_add_(0, both, torch.ones_like(both))


def run(turns: Turns) -> None:
    use_ranks(turns)
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-5, fused=True)
    images = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE)
    right = torch.randint(CLASSES, (BATCH, SIZE // 4, SIZE // 4), device=DEVICE)
    on_host = np.zeros(CLASSES * CLASSES, np.int64)
    on_gpu = torch.zeros(CLASSES * CLASSES, dtype=torch.int64, device=DEVICE)
    while turns.step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            scores = model(pixel_values=images).logits
        update(optimizer, nn.functional.cross_entropy(scores.float(), right))
        found = scores.detach().argmax(1)
        if turns.planted:
            count_gathered(found, right, on_host)
        else:
            count_here(found, right, on_gpu)
