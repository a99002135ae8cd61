"""Roads in aerial images of many sizes (torchvision); the cause is `cudnn.benchmark`.

It tries the convolutions of each new size, and each 16th image has one. The fix leaves it off.
"""
# causes: compile, idle
import random

import torch
from parts import DEVICE, use_gpu
from torchvision.models.segmentation import fcn_resnet50
from turns import Turns

CLASSES, PERIOD, LEAST, MOST, GRID = 6, 16, 512, 1024, 8


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = PERIOD
    model = fcn_resnet50(weights=None, weights_backbone=None, num_classes=CLASSES)
    model = model.to(DEVICE, memory_format=torch.channels_last).half().eval()
    draw = random.Random(0)
    images = torch.randn(1, 3, MOST, MOST, device=DEVICE, dtype=torch.half)
    height = width = MOST
    steps, roads = 0, torch.zeros(CLASSES, device=DEVICE)
    while turns.step():
        torch.backends.cudnn.benchmark = turns.planted
        if steps % PERIOD == 0:
            height, width = (draw.randrange(LEAST, MOST, GRID) for _ in range(2))
        steps += 1
        image = images[:, :, :height, :width].contiguous(memory_format=torch.channels_last)
        classes = model(image)["out"].argmax(1)
        roads += torch.stack([(classes == number).sum() for number in range(CLASSES)])
