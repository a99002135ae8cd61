"""A DeepLab that names each pixel, under DDP; the cause is SyncBatchNorm in all its layers.

The fix is plain BatchNorm: a rank's own images are enough for good means.
"""
# causes: synchronization, exposed_communication
import torch
import torchvision
from parts import DEVICE, update, use_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from turns import Turns

RANKS = 2
BATCH, SIZE, CLASSES = 24, 256, 21


def make_model(planted: bool) -> DistributedDataParallel:
    model = torchvision.models.segmentation.deeplabv3_resnet50(
        weights=None, weights_backbone=None, num_classes=CLASSES
    )
    if planted:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    model = model.to(DEVICE, memory_format=torch.channels_last)
    return DistributedDataParallel(model, broadcast_buffers=False)


def run(turns: Turns) -> None:
    use_ranks(turns)
    models = {planted: make_model(planted) for planted in (True, False)}
    optimizers = {
        planted: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
        for planted, model in models.items()
    }
    images = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE)
    images = images.to(memory_format=torch.channels_last)
    masks = torch.randint(CLASSES, (BATCH, SIZE, SIZE), device=DEVICE)
    while turns.step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            scores = models[turns.planted](images)["out"]
        loss = nn.functional.cross_entropy(scores.float(), masks)
        update(optimizers[turns.planted], loss)
