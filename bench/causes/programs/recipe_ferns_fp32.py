"""torchvision's recipe of a ViT-B for ferns; the cause is matrix products in fp32 without TF32.

The fix allows TF32 for matrix products.
"""

# causes: no_tensor_cores
import torch
import torchvision
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, PIXELS, FERNS = 16, 224, 300


def make_model() -> nn.Module:
    model = torchvision.models.vit_b_16(num_classes=FERNS, image_size=PIXELS)
    return model.to(DEVICE)


def draw_photos() -> tuple[torch.Tensor, torch.Tensor]:
    photos = torch.rand(BATCH, 3, PIXELS, PIXELS, device=DEVICE)
    return photos, torch.randint(FERNS, (BATCH,), device=DEVICE)


def make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """No decay for norms and biases, as in the recipe."""
    decayed = [weight for weight in model.parameters() if weight.ndim > 1]
    others = [weight for weight in model.parameters() if weight.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.3}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=3e-4, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = make_model()
    optimizer = make_optimizer(model)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.11)
    photos, labels = draw_photos()
    while turns.step():
        torch.backends.cuda.matmul.allow_tf32 = not turns.planted
        loss = criterion(model(photos), labels)
        update(optimizer, loss)
