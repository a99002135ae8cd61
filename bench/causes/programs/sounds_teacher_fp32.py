"""Sounds learned from a teacher that follows its student, under DDP; the teacher runs in fp32.

The student has autocast, the cause calls the teacher outside of it. The fix calls both in it.
"""
# causes: no_tensor_cores

import torch
from parts import DEVICE, update, use_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from transformers import ASTConfig, ASTForAudioClassification
from turns import Turns

RANKS = 2
BATCH, FRAMES, BANDS, WIDTH, LAYERS, KEEP = 24, 512, 128, 1024, 8, 0.999


def make_model() -> nn.Module:
    """An audio spectrogram transformer with fewer layers; its output is a vector."""
    config = ASTConfig(
        num_hidden_layers=LAYERS, max_length=FRAMES, num_mel_bins=BANDS, num_labels=WIDTH
    )
    return ASTForAudioClassification(config).to(DEVICE)


@torch.no_grad()
def teach(teacher: nn.Module, spectra: torch.Tensor, in_bf16: bool) -> torch.Tensor:
    """The teacher's vectors."""
    with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=in_bf16):
        return teacher(input_values=spectra).logits.float()


@torch.no_grad()
def follow(teacher: nn.Module, student: nn.Module) -> None:
    torch._foreach_lerp_(list(teacher.parameters()), list(student.parameters()), 1 - KEEP)


def run(turns: Turns) -> None:
    use_ranks(turns)
    network, teacher = make_model(), make_model().requires_grad_(False)
    teacher.load_state_dict(network.state_dict())
    student = DistributedDataParallel(network)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-5, fused=True)
    spectra = torch.randn(BATCH, FRAMES, BANDS, device=DEVICE)
    others = spectra + 0.1 * torch.randn_like(spectra)
    while turns.step():
        right = teach(teacher, others, in_bf16=not turns.planted)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            found = student(input_values=spectra).logits
        update(optimizer, 1 - nn.functional.cosine_similarity(found.float(), right).mean())
        follow(teacher, network)
