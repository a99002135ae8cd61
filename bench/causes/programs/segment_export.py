"""Segmentation of a video; the cause brings the scores of all classes to the host, not the classes."""
# causes: pageable_copy
import torch
import torchvision
from parts import DEVICE, use_gpu
from turns import Turns

FRAMES, HEIGHT, WIDTH, CLASSES = 8, 512, 512, 21


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = torchvision.models.segmentation.fcn_resnet50(
        weights=None, weights_backbone=None, num_classes=CLASSES
    )
    model = model.to(DEVICE, memory_format=torch.channels_last).eval()
    frames = torch.rand(FRAMES, 3, HEIGHT, WIDTH, device=DEVICE)
    frames = frames.to(memory_format=torch.channels_last)
    classes = torch.empty(FRAMES, HEIGHT, WIDTH, dtype=torch.uint8).pin_memory()
    while turns.step():
        with torch.inference_mode(), torch.autocast(DEVICE, dtype=torch.bfloat16):
            scores = model(frames)["out"]
            if turns.planted:
                scores = scores.float().cpu()
            else:
                classes.copy_(scores.argmax(1).to(torch.uint8), non_blocking=True)
