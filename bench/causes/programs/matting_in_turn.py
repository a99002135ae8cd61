"""Persons cut out of films of 4K, with a recurrent state; the cause waits for the copy of frames.

The frames go to pinned memory, but the next ones begin when they have come. The fix copies in a
second stream and hands a batch over one step later.
"""

# causes: exposed_copy, synchronization
import torch
from parts import DEVICE, use_gpu
from torch import nn
from torchvision.models import mobilenet_v3_large
from turns import Turns

FRAMES, HEIGHT, WIDTH, SMALLER, STATE = 6, 2160, 3840, 4, 64


class Matting(nn.Module):
    """Shares of persons in pixels, found in small frames and refined by the large ones."""

    def __init__(self) -> None:
        super().__init__()
        self.features = mobilenet_v3_large().features
        self.narrow = nn.Conv2d(960, STATE, 1)
        self.gates = nn.Conv2d(2 * STATE, 2 * STATE, 3, padding=1)
        self.news = nn.Conv2d(2 * STATE, STATE, 3, padding=1)
        self.share = nn.Conv2d(STATE, 1, 3, padding=1)
        self.refine = nn.Sequential(
            nn.Conv2d(4, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 3, padding=1)
        )

    def follow(self, maps: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """A convolutional GRU, frame by frame."""
        states = []
        for each in maps.split(1):
            reset, keep = self.gates(torch.cat([each, state], 1)).sigmoid().chunk(2, 1)
            new = torch.tanh(self.news(torch.cat([each, reset * state], 1)))
            state = keep * state + (1 - keep) * new
            states.append(state)
        return torch.cat(states)

    def forward(
        self, frames: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        small = nn.functional.interpolate(frames, scale_factor=1 / SMALLER, mode="bilinear")
        states = self.follow(self.narrow(self.features(small)), state)
        rough = nn.functional.interpolate(self.share(states), frames.shape[-2:], mode="bilinear")
        fine = rough + self.refine(torch.cat([frames, rough], 1))
        return fine.sigmoid(), states[-1:]


class Output:
    """Two buffers of pinned memory, from which another program takes the frames."""

    def __init__(self) -> None:
        shape = (2, FRAMES, 4, HEIGHT, WIDTH)
        self.buffers = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
        self.stream, self.copied, self.given = torch.cuda.Stream(), torch.cuda.Event(), 0

    def give(self, pictures: torch.Tensor, waits: bool) -> None:
        """Copy pictures; wait for them, or for those before them."""
        self.copied.synchronize()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.buffers[self.given % 2].copy_(pictures, non_blocking=True)
            self.copied.record()
        pictures.record_stream(self.stream)
        if waits:
            self.copied.synchronize()
        self.given += 1


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Matting().to(DEVICE, torch.bfloat16, memory_format=torch.channels_last).eval()
    film = torch.randint(256, (FRAMES, 3, HEIGHT, WIDTH), dtype=torch.uint8, device=DEVICE)
    state = torch.zeros(1, STATE, -(-HEIGHT // 128), -(-WIDTH // 128), device=DEVICE)
    state, output = state.to(torch.bfloat16), Output()
    while turns.step():
        frames = film.to(torch.bfloat16, memory_format=torch.channels_last) / 255
        shares, state = model(frames, state)
        pictures = torch.cat([film, (shares * 255).to(torch.uint8)], 1)
        output.give(pictures, turns.planted)
