"""Molecules and 64 assays, most results missing; the cause picks the known ones assay by assay.

The fix computes the loss of all results at once, and masks the missing ones.
"""
# causes: synchronization, tiny_kernels, host_bound
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, BITS, WIDTH, LAYERS, ASSAYS, KNOWN, MOLECULES = 4096, 2048, 2048, 6, 64, 0.2, 32_768


def compute_loss_by_assay(guesses: torch.Tensor, results: torch.Tensor) -> torch.Tensor:
    """The mean over assays of the cross entropy of their known results; missing ones are NaN."""
    losses = []
    for assay in range(ASSAYS):
        is_known = ~results[:, assay].isnan()
        if is_known.any():
            mine, true = guesses[is_known, assay], results[is_known, assay]
            losses.append(nn.functional.binary_cross_entropy_with_logits(mine, true))
    return torch.stack(losses).mean()


def compute_loss_at_once(guesses: torch.Tensor, results: torch.Tensor) -> torch.Tensor:
    """As compute_loss_by_assay."""
    is_known = ~results.isnan()
    losses = nn.functional.binary_cross_entropy_with_logits(
        guesses, results.nan_to_num(), reduction="none"
    )
    counts = is_known.sum(0)
    means = (losses * is_known).sum(0) / counts.clamp(min=1)
    return means.sum() / (counts > 0).sum()


def run(turns: Turns) -> None:
    use_gpu(turns)
    layers: list[nn.Module] = [nn.Linear(BITS, WIDTH), nn.GELU()]
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU(), nn.Dropout(0.1)]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, ASSAYS)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    prints = torch.randint(2, (MOLECULES, BITS), device=DEVICE, dtype=torch.uint8)
    results = torch.randint(2, (MOLECULES, ASSAYS), device=DEVICE).float()
    results[torch.rand_like(results) > KNOWN] = torch.nan
    while turns.step():
        chosen = torch.randint(MOLECULES, (BATCH,), device=DEVICE)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guesses = model(prints[chosen].float())
        compute_loss = compute_loss_by_assay if turns.planted else compute_loss_at_once
        update(optimizer, compute_loss(guesses.float(), results[chosen]))
