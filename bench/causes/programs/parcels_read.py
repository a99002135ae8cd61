"""Labels of parcels read by a CRNN (ResNet-50 of torchvision and LSTMs); the cause decodes CTC with an `.item()` for each frame.

Each `.item()` copies one number and waits. The fix fetches the best letters of the batch as one list.
"""

# causes: synchronization, many_small_copies
from collections.abc import Iterable

import torch
import torchvision
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, HEIGHT, WIDTH, LETTERS, STATE, CHANNELS, BATCHES = 32, 128, 512, 37, 256, 1024, 4
BLANK = 0


class Reader(nn.Module):
    """Pictures of lines to the scores of letters: (batch, frames, letters)."""

    def __init__(self) -> None:
        super().__init__()
        whole = torchvision.models.resnet50(weights=None)
        self.trunk = nn.Sequential(*list(whole.children())[:-3])
        self.lstm = nn.LSTM(CHANNELS, STATE, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * STATE, LETTERS)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        columns = self.trunk(pictures).mean(2).transpose(1, 2).contiguous()
        return self.head(self.lstm(columns)[0])


def collapse(letters: Iterable[int]) -> list[int]:
    """The text of a line: repeated letters once, blanks left out."""
    text, last = [], BLANK
    for letter in letters:
        if letter not in (last, BLANK):
            text.append(letter)
        last = letter
    return text


def decode_each(scores: torch.Tensor) -> list[list[int]]:
    best = scores.argmax(2)
    return [collapse(letter.item() for letter in line) for line in best]


def decode_batch(scores: torch.Tensor) -> list[list[int]]:
    """As decode_each."""
    return [collapse(line) for line in scores.argmax(2).tolist()]


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Reader().eval().to(DEVICE, torch.bfloat16)
    model.trunk.to(memory_format=torch.channels_last)
    shape = (BATCHES, BATCH, HEIGHT, WIDTH, 3)
    pictures = torch.randint(256, shape, dtype=torch.uint8, device=DEVICE)
    read = 0
    while turns.step():
        pixels = pictures[read // BATCH % BATCHES].permute(0, 3, 1, 2).bfloat16()
        scores = model((pixels - 120) / 60)
        texts = decode_each(scores) if turns.planted else decode_batch(scores)
        read += len(texts)
