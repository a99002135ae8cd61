"""torchvision's R(2+1)D on videos of kites; the cause is a copy of each batch before its step.

The videos are pinned. The fix copies the next batch on a second stream during the present step.
"""

# causes: exposed_copy
import torch
import torchvision
from parts import DEVICE, image_loss, update, use_gpu
from turns import Turns

BATCH, FRAMES, PIXELS, MOVES, STORED = 16, 16, 112, 60, 2
# The camera's frames are larger; the GPU makes them smaller.
HEIGHT, WIDTH = 672, 960


def shrink(videos: torch.Tensor) -> torch.Tensor:
    """Frames of bytes as small frames of numbers: (batch, 3, frames, pixels, pixels)."""
    small = videos[..., ::6, ::8][..., :PIXELS, :PIXELS]
    return small.float().div(255)


class Ahead:
    """Copies the next batch while the present one is computed."""

    def __init__(self, stored: list[torch.Tensor]) -> None:
        self.stored, self.stream = stored, torch.cuda.Stream()
        self.coming: torch.Tensor | None = None

    def take(self, number: int) -> torch.Tensor:
        """The batch of this number; the copy of the next one begins."""
        present = self.coming if self.coming is not None else self.copy(number)
        torch.cuda.current_stream().wait_stream(self.stream)
        present.record_stream(torch.cuda.current_stream())
        self.coming = self.copy(number + 1)
        return present

    def copy(self, number: int) -> torch.Tensor:
        with torch.cuda.stream(self.stream):
            return self.stored[number % STORED].to(DEVICE, non_blocking=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = torchvision.models.video.r2plus1d_18(num_classes=MOVES).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    shape = (BATCH, 3, FRAMES, HEIGHT, WIDTH)
    stored = [torch.randint(256, shape, dtype=torch.uint8).pin_memory() for _ in range(STORED)]
    moves = torch.randint(MOVES, (BATCH,), device=DEVICE)
    ahead = Ahead(stored)
    number = 0
    while turns.step():
        number += 1
        if turns.planted:
            ahead.coming = None
            videos = stored[number % STORED].to(DEVICE, non_blocking=True)
        else:
            videos = ahead.take(number)
        update(optimizer, image_loss(model, shrink(videos), moves))
