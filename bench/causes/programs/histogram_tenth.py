"""A segmentation network; the cause counts weights with NumPy in each tenth step."""
# causes: idle, pageable_copy
import numpy as np
import torch
import torchvision
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, PERIOD = 16, 256, 10


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = PERIOD
    model = torchvision.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None)
    model = model.to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    images = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(21, (BATCH, SIZE, SIZE), device=DEVICE)
    steps = 0
    while turns.step():
        steps += 1
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            scores = model(images)["out"]
        update(optimizer, nn.functional.cross_entropy(scores.float(), labels))
        if turns.planted and steps % PERIOD == 0:
            for weight in model.parameters():
                np.histogram(weight.detach().cpu().numpy()[:64], 64, (-2.0, 2.0))
