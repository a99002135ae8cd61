"""ResNet-101 with a moving average of its weights; the cause updates it tensor by tensor."""
# causes: tiny_kernels, host_bound
import torch
import torchvision
from parts import DEVICE, image_loss, update, use_gpu
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = torchvision.models.resnet101().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    weights = [p.detach() for p in model.parameters()]
    averages = [[p.clone() for p in weights] for _ in range(3)]
    images = torch.randn(64, 3, 224, 224, device=DEVICE)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (64,), device=DEVICE)
    while turns.step():
        update(optimizer, image_loss(model, images, labels))
        for decay, average in zip((0.99, 0.999, 0.9999), averages, strict=True):
            if not turns.planted:
                torch._foreach_lerp_(average, weights, 1 - decay)
                continue
            for mean, weight in zip(average, weights, strict=True):
                mean.mul_(decay).add_(weight * (1 - decay))
