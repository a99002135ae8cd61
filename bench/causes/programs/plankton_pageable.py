"""Plankton in images told by a MnasNet under DDP; the cause copies images of pageable memory.

The fix has the images in pinned memory and copies the next ones beside the step, as a loader with
`pin_memory=True` and `non_blocking=True` allow.
"""
# causes: pageable_copy

import torch
import torchvision
from parts import DEVICE, image_loss, update, use_ranks
from torch.nn.parallel import DistributedDataParallel
from turns import Turns

RANKS = 2
BATCH, SIZE, KINDS, KEPT = 208, 224, 120, 3


class Prefetcher:
    """The next images on the GPU, copied on a stream of its own."""

    def __init__(self, batches: list[torch.Tensor]) -> None:
        self.batches = [batch.pin_memory() for batch in batches]
        self.stream = torch.cuda.Stream()
        self.count = 0
        self.copy_next()

    def copy_next(self) -> None:
        batch = self.batches[self.count % KEPT]
        with torch.cuda.stream(self.stream):
            self.ready = batch.to(DEVICE, non_blocking=True)
        self.count += 1

    def take(self) -> torch.Tensor:
        """The images that are ready; the copy of the next ones begins."""
        stream = torch.cuda.current_stream()
        stream.wait_stream(self.stream)
        images = self.ready
        images.record_stream(stream)
        self.copy_next()
        return images


def run(turns: Turns) -> None:
    use_ranks(turns)
    model = torchvision.models.mnasnet1_0(num_classes=KINDS).to(DEVICE)
    model = DistributedDataParallel(model.to(memory_format=torch.channels_last))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    batches = [torch.randn(BATCH, 3, SIZE, SIZE) for _ in range(KEPT)]
    prefetcher = Prefetcher(batches)
    labels = torch.randint(KINDS, (BATCH,), device=DEVICE)
    count = 0
    while turns.step():
        images = batches[count % KEPT].to(DEVICE) if turns.planted else prefetcher.take()
        count += 1
        images = images.contiguous(memory_format=torch.channels_last)
        update(optimizer, image_loss(model, images, labels))
