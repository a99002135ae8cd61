"""A diffusion U-Net, its noise drawn on the GPU; the fix replays its step as a CUDA graph."""
# causes: host_bound, tiny_kernels
import torch
from diffusion_noise import BATCH, SIZE, Unet
from parts import DEVICE, run_eager_or_graph, update, use_gpu
from torch import nn
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Unet().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=True)
    images = torch.rand(BATCH, 3, SIZE, SIZE, device=DEVICE)
    kept = torch.linspace(0.99, 0.01, 1000, device=DEVICE)

    def step() -> None:
        time = torch.randint(1000, (BATCH,), device=DEVICE)
        share = kept[time][:, None, None, None]
        noise = torch.randn(images.shape, device=DEVICE)
        noisy = share.sqrt() * images + (1 - share).sqrt() * noise
        noisy = noisy.contiguous(memory_format=torch.channels_last)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(noisy, time), noise)
        update(optimizer, loss)

    run_eager_or_graph(turns, step)
