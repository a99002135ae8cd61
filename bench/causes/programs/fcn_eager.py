"""A segmentation network; the fix replays its step as a CUDA graph."""
# causes: host_bound, tiny_kernels
import torch
import torchvision
from histogram_tenth import BATCH, SIZE
from parts import DEVICE, run_eager_or_graph, update, use_gpu
from torch import nn
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = torchvision.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None)
    model = model.to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    images = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(21, (BATCH, SIZE, SIZE), device=DEVICE)

    def step() -> None:
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            scores = model(images)["out"]
        update(optimizer, nn.functional.cross_entropy(scores.float(), labels))

    run_eager_or_graph(turns, step)
