"""A ResNet of timm with clipped gradients; the fix replays its step as a CUDA graph."""
# causes: host_bound, tiny_kernels
import timm
import torch
from parts import DEVICE, image_loss, run_eager_or_graph, update, use_gpu
from timm_agc import BATCH, MODEL, SIZE
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = timm.create_model(MODEL).to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    images = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (BATCH,), device=DEVICE)
    weights = list(model.parameters())

    def clip(*_: object) -> None:
        torch.nn.utils.clip_grad_norm_(weights, 1.0, foreach=True)

    optimizer.register_step_pre_hook(clip)
    run_eager_or_graph(turns, lambda: update(optimizer, image_loss(model, images, labels)))
