"""A ResNet of timm; the cause is its adaptive clipping of gradients, tensor by tensor."""
# causes: tiny_kernels, host_bound
import timm
import torch
from parts import DEVICE, image_loss, update, use_gpu
from timm.utils.agc import adaptive_clip_grad
from turns import Turns

BATCH, SIZE, MODEL = 64, 224, "resnet50"


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = timm.create_model(MODEL).to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    images = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (BATCH,), device=DEVICE)
    weights = list(model.parameters())

    def clip(*_: object) -> None:
        if turns.planted:
            adaptive_clip_grad(weights, 0.01)
        else:
            torch.nn.utils.clip_grad_norm_(weights, 1.0, foreach=True)

    optimizer.register_step_pre_hook(clip)
    while turns.step():
        update(optimizer, image_loss(model, images, labels))
