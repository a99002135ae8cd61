"""A ResNet; the cause computes metrics with NumPy at each fifth step."""
# causes: idle
import numpy as np
import torch
import torchvision
from parts import DEVICE, image_loss, update, use_gpu
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = 5
    model = torchvision.models.resnet18().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    images = torch.randn(256, 3, 128, 128, device=DEVICE)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (256,), device=DEVICE)
    scores, steps = np.random.default_rng(0).random((16000, 256), np.float32), 0
    while turns.step():
        steps += 1
        update(optimizer, image_loss(model, images, labels))
        if turns.planted and steps % 5 == 0:
            np.argsort(scores, axis=1)
            np.sort(scores.ravel())
