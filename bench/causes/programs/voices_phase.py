"""Voices of a synthesizer; the cause adds up the phase of each by one sum over all its samples.

That has a block for each of 24 voices. The fix adds up pieces, and then the pieces.
"""
# causes: unused_gpu
import torch
from parts import DEVICE, use_gpu
from turns import Turns

VOICES, PIECES, PIECE, TONES = 24, 256, 2048, 12


def add_up(steps: torch.Tensor) -> torch.Tensor:
    """The phase of each voice at each sample."""
    return steps.cumsum(-1)


def add_up_pieces(steps: torch.Tensor) -> torch.Tensor:
    """As add_up."""
    inside = steps.view(VOICES, PIECES, PIECE).cumsum(-1)
    ends = inside[..., -1].cumsum(-1)
    inside[:, 1:] += ends[:, :-1, None]
    return inside.view(VOICES, -1)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    pitch = torch.rand(VOICES, PIECES * PIECE, device=DEVICE) / 100
    loud = torch.rand(TONES, VOICES, 1, device=DEVICE)
    while turns.step():
        phase = add_up(pitch) if turns.planted else add_up_pieces(pitch)
        sound = torch.zeros_like(phase)
        for tone in range(TONES):
            sound += loud[tone] * torch.sin(phase * (tone + 1))
        pitch = pitch + 1e-6 * sound
