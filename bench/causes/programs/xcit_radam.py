"""Mosaics of tiles told by an XCiT (timm); the cause is RAdam with `foreach=False`.

The fix is its default, which steps all weights at once.
"""
# causes: tiny_kernels, host_bound
import timm
import torch
from parts import DEVICE, image_loss, update, use_gpu
from turns import Turns

BATCH, SIDE, KINDS, BATCHES = 64, 224, 200, 4


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = timm.create_model("xcit_small_12_p16_224", pretrained=False, num_classes=KINDS).to(DEVICE)
    single, together = (
        torch.optim.RAdam(
            model.parameters(), lr=1e-4, weight_decay=0.05, decoupled_weight_decay=True,
            foreach=foreach,
        )
        for foreach in (False, True)
    )  # fmt: skip
    images = torch.rand(BATCHES, BATCH, 3, SIDE, SIDE).pin_memory()
    kinds = torch.randint(KINDS, (BATCHES, BATCH)).pin_memory()
    step = 0
    while turns.step():
        shown = images[step % BATCHES].to(DEVICE, non_blocking=True)
        wanted = kinds[step % BATCHES].to(DEVICE, non_blocking=True)
        step += 1
        update(single if turns.planted else together, image_loss(model, shown, wanted))
