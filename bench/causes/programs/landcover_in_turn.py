"""Land cover of satellite scenes told by a ResNet-34 of 13 bands; the cause copies each batch when it is needed.

The scenes lie in pinned memory, and the copy is in the stream of the kernels. The fix copies the next
batch in a stream of its own meanwhile.
"""
# causes: exposed_copy
import torch
import torchvision
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

SCENES, BANDS, SIZE, KINDS, BATCHES = 64, 13, 512, 11, 3
SHAPE = (SCENES, BANDS, SIZE, SIZE)


def make_model() -> nn.Module:
    model = torchvision.models.resnet34(num_classes=KINDS)
    model.conv1 = nn.Conv2d(BANDS, 64, 7, stride=2, padding=3, bias=False)
    return model.to(DEVICE, torch.bfloat16, memory_format=torch.channels_last).eval()


def make_batch() -> torch.Tensor:
    """Scenes in pinned memory, of 16 bits as the satellite's files have them."""
    batch = torch.empty(SHAPE, dtype=torch.int16, pin_memory=True)
    return batch.copy_(torch.randint(10_000, SHAPE, dtype=torch.int16, device=DEVICE))


def prepare(scenes: torch.Tensor) -> torch.Tensor:
    pixels = scenes.to(torch.bfloat16, memory_format=torch.channels_last)
    return pixels.mul_(1 / 3000).sub_(1)


class Ahead:
    """Two rooms on the GPU: one is read by kernels, the other one filled in another stream."""

    def __init__(self, batches: list[torch.Tensor]) -> None:
        self.batches, self.stream, self.taken = batches, torch.cuda.Stream(), 0
        self.rooms = [torch.empty(SHAPE, dtype=torch.int16, device=DEVICE) for _ in range(2)]
        self.filled = [torch.cuda.Event() for _ in range(2)]
        self.read = [torch.cuda.Event() for _ in range(2)]
        self.fill(0)

    def fill(self, number: int) -> None:
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.read[number % 2])
            self.rooms[number % 2].copy_(self.batches[number % BATCHES], non_blocking=True)
            self.filled[number % 2].record()

    def take(self) -> torch.Tensor:
        """The next batch as the network takes it."""
        room = self.taken % 2
        torch.cuda.current_stream().wait_event(self.filled[room])
        pixels = prepare(self.rooms[room])
        self.read[room].record()
        self.taken += 1
        self.fill(self.taken)
        return pixels


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = make_model()
    batches = [make_batch() for _ in range(BATCHES)]
    ahead, room = Ahead(batches), torch.empty(SHAPE, dtype=torch.int16, device=DEVICE)
    steps, areas = 0, torch.zeros(KINDS, device=DEVICE)
    while turns.step():
        if turns.planted:
            pixels = prepare(room.copy_(batches[steps % BATCHES], non_blocking=True))
        else:
            pixels = ahead.take()
        areas += model(pixels).float().softmax(-1).sum(0)
        steps += 1
