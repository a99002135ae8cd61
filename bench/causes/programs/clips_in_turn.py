"""Clips of a camera told apart by an R(2+1)D; the cause copies each batch when it is needed.

Batches lie in pinned memory. The fix copies the next one on a stream of its own beside training.
"""
# causes: exposed_copy
import torch
from parts import DEVICE, image_loss, update, use_gpu
from torchvision.models.video import r2plus1d_18
from turns import Turns

# Whole clips are copied; the network sees a crop of each, in each second frame.
BATCH, FRAMES, SIZE, CROP, CLASSES, BATCHES = 24, 32, 400, 112, 50, 3


def prepare(clips: torch.Tensor) -> torch.Tensor:
    """Crops of the clips as numbers around zero."""
    edge = (SIZE - CROP) // 2
    crops = clips[:, :, ::2, edge : edge + CROP, edge : edge + CROP]
    return crops.float().div_(127.5).sub_(1)


class Ahead:
    """Copies of the next batch on a stream beside the kernels."""

    def __init__(self, batches: list[torch.Tensor]) -> None:
        self.batches, self.stream = batches, torch.cuda.Stream()
        self.next: torch.Tensor | None = None
        self.taken = 0

    def begin(self) -> None:
        self.taken += 1
        with torch.cuda.stream(self.stream):
            batch = self.batches[self.taken % BATCHES]
            self.next = batch.to(DEVICE, non_blocking=True)

    def take(self) -> torch.Tensor:
        if self.next is None:
            self.begin()
        torch.cuda.current_stream().wait_stream(self.stream)
        clips = self.next
        clips.record_stream(torch.cuda.current_stream())
        self.begin()
        return clips


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = r2plus1d_18(num_classes=CLASSES).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    shape = (BATCH, 3, FRAMES, SIZE, SIZE)
    batches = [torch.randint(256, shape, dtype=torch.uint8).pin_memory() for _ in range(BATCHES)]
    labels = torch.randint(CLASSES, (BATCH,), device=DEVICE)
    ahead, taken = Ahead(batches), 0
    while turns.step():
        taken += 1
        if turns.planted:
            clips = batches[taken % BATCHES].to(DEVICE, non_blocking=True)
        else:
            clips = ahead.take()
        update(optimizer, image_loss(model, prepare(clips), labels))
