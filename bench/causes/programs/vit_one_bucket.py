"""Half of a large ViT (timm) on four ranks; the cause puts all gradients into one bucket of DDP.

No gradient is reduced before the backward pass has ended. The fix has DDP's buckets of 25 MB.
"""
# causes: exposed_communication

import timm
import torch
from parts import DEVICE, image_loss, update, use_ranks
from torch.nn.parallel import DistributedDataParallel
from turns import Turns

RANKS = 4
BATCH, SIZE, DEPTH, BUCKET_MB = 24, 224, 16, 4096


def run(turns: Turns) -> None:
    use_ranks(turns)
    network = timm.create_model("vit_large_patch16_224", depth=DEPTH).to(DEVICE)
    # Two wrappers of one network: a wrapper only acts in a backward pass of its own forward pass.
    models = {
        True: DistributedDataParallel(network, bucket_cap_mb=BUCKET_MB),
        False: DistributedDataParallel(network),
    }
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, fused=True)
    images = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE)
    labels = torch.randint(1000, (BATCH,), device=DEVICE)
    while turns.step():
        update(optimizer, image_loss(models[turns.planted], images, labels))
