"""An audio transformer (transformers); the cause reads the norm of each gradient to clip them."""
# causes: synchronization
from collections.abc import Iterable

import torch
from parts import DEVICE, use_gpu
from torch import nn
from transformers import ASTConfig, ASTForAudioClassification
from turns import Turns

BATCH, TIMES, BANDS, CLASSES, LIMIT = 16, 512, 128, 35, 1.0


def clip_by_items(parameters: Iterable[nn.Parameter]) -> float:
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = sum(gradient.norm(2).item() ** 2 for gradient in gradients) ** 0.5
    if norm > LIMIT:
        for gradient in gradients:
            gradient.mul_(LIMIT / (norm + 1e-6))
    return norm


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = ASTConfig(max_length=TIMES, num_mel_bins=BANDS, num_labels=CLASSES)
    model = ASTForAudioClassification(config).to(DEVICE).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    spectra = torch.randn(BATCH, TIMES, BANDS, device=DEVICE)
    labels = torch.randint(CLASSES, (BATCH,), device=DEVICE)
    while turns.step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            logits = model(spectra).logits
        nn.functional.cross_entropy(logits.float(), labels).backward()
        if turns.planted:
            clip_by_items(model.parameters())
        else:
            nn.utils.clip_grad_norm_(model.parameters(), LIMIT)
        optimizer.step()
