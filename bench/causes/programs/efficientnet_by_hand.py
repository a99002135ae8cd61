"""An EfficientNet; the cause averages the gradients by hand after the backward pass, one by one.

So does the tutorial on distributed applications. The fix is DistributedDataParallel, which reduces
buckets of gradients beside the backward pass.
"""
# causes: exposed_communication, low_bandwidth

import torch
import torchvision
from parts import DEVICE, image_loss, use_ranks
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from turns import Turns

RANKS = 2
BATCH, SIZE = 32, 224


def average_gradients(model: nn.Module) -> None:
    """The mean of all ranks, a gradient after the other."""
    for weight in model.parameters():
        distributed.all_reduce(weight.grad)
        weight.grad /= distributed.get_world_size()


def make_model() -> nn.Module:
    model = torchvision.models.efficientnet_v2_s().to(DEVICE)
    return model.to(memory_format=torch.channels_last)


def run(turns: Turns) -> None:
    use_ranks(turns)
    models = {True: make_model(), False: DistributedDataParallel(make_model())}
    optimizers = {
        each: torch.optim.SGD(models[each].parameters(), lr=0.01, momentum=0.9, fused=True)
        for each in models
    }
    images = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(1000, (BATCH,), device=DEVICE)
    while turns.step():
        model, optimizer = models[turns.planted], optimizers[turns.planted]
        image_loss(model, images, labels).backward()
        if turns.planted:
            average_gradients(model)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
