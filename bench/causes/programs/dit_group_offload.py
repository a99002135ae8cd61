"""A large diffusion transformer whose blocks are brought to the GPU one by one (group offloading).

The cause copies a block in the stream that computes. The fix copies the next block in a stream of
its own meanwhile, as `use_stream=True` of diffusers does.
"""
# causes: exposed_copy
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

IMAGES, PATCHES, WIDTH, HEADS, BLOCKS, TIMES = 12, 1024, 1536, 16, 16, 50


class Block(nn.Module):
    """Attention and an MLP, both led by the time."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH, elementwise_affine=False) for _ in range(2))
        self.lead = nn.Linear(WIDTH, 6 * WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        led = self.lead(nn.functional.silu(time))[:, None].chunk(6, -1)
        y = self.norm1(x) * (1 + led[0]) + led[1]
        q, k, v = self.qkv(y).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + led[2] * self.out(y.transpose(1, 2).flatten(2))
        y = self.norm2(x) * (1 + led[3]) + led[4]
        return x + led[5] * self.down(nn.functional.gelu(self.up(y), approximate="tanh"))


class Group:
    """The weights of a block, in pinned memory while the block does not run."""

    def __init__(self, block: Block) -> None:
        self.weights = [(weight, weight.data.cpu().pin_memory()) for weight in block.parameters()]
        self.arrived = torch.cuda.Event()
        self.unload()

    def load(self, stream: torch.cuda.Stream) -> None:
        """Bring the weights to the GPU behind the work that the stream has, unless they are there."""
        if self.loaded:
            return
        with torch.cuda.stream(stream):
            for weight, kept in self.weights:
                weight.data = kept.to(DEVICE, non_blocking=True)
            self.arrived.record(stream)
        self.loaded = True

    def unload(self) -> None:
        for weight, kept in self.weights:
            weight.data = kept
        self.loaded = False


class Denoiser:
    """Blocks that are on the GPU only while they run."""

    def __init__(self) -> None:
        with torch.device(DEVICE):
            self.blocks = [Block().bfloat16() for _ in range(BLOCKS)]
            self.times = nn.Embedding(TIMES, WIDTH).bfloat16()
        self.groups = [Group(block) for block in self.blocks]
        self.copies = torch.cuda.Stream()

    def __call__(self, x: torch.Tensor, time: torch.Tensor, planted: bool) -> torch.Tensor:
        compute, time = torch.cuda.current_stream(), self.times(time)
        for place, (block, group) in enumerate(zip(self.blocks, self.groups, strict=True)):
            group.load(compute)
            if not planted:
                # No more than two blocks are on the GPU.
                self.copies.wait_stream(compute)
                self.groups[(place + 1) % BLOCKS].load(self.copies)
            compute.wait_event(group.arrived)
            x = block(x, time)
            group.unload()
        return x


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Denoiser()
    latents = torch.randn(IMAGES, PATCHES, WIDTH, device=DEVICE, dtype=torch.bfloat16)
    times = torch.arange(TIMES, device=DEVICE).flip(0)
    steps = 0
    while turns.step():
        noise = model(latents, times[steps % TIMES].expand(IMAGES), turns.planted)
        latents = 0.98 * latents - 0.02 * noise
        steps += 1
