"""Recognition of 200,000 faces (timm) by angles; the cause leaves the head in fp32.

The network before it computes in bf16. The fix allows TF32.
"""
# causes: no_tensor_cores
import timm
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, PERSONS, WIDTH, SCALE, MARGIN = 512, 112, 200_000, 512, 64.0, 0.35


class Head(nn.Module):
    """The loss of cosines to the center of each person, with a margin for the right one."""

    def __init__(self) -> None:
        super().__init__()
        self.centers = nn.Parameter(0.01 * torch.randn(PERSONS, WIDTH))

    def forward(self, features: torch.Tensor, persons: torch.Tensor) -> torch.Tensor:
        normalize = nn.functional.normalize
        cosines = normalize(features) @ normalize(self.centers).T
        rows = torch.arange(BATCH, device=persons.device)
        margins = torch.full((BATCH,), -MARGIN, device=persons.device)
        cosines = cosines.index_put((rows, persons), margins, accumulate=True)
        return nn.functional.cross_entropy(SCALE * cosines, persons)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = timm.create_model("resnet34", num_classes=WIDTH).to(DEVICE)
    model, head = model.to(memory_format=torch.channels_last), Head().to(DEVICE)
    weights = [*model.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(weights, lr=0.01, momentum=0.9, fused=True)
    faces = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE)
    faces = faces.contiguous(memory_format=torch.channels_last)
    persons = torch.randint(PERSONS, (BATCH,), device=DEVICE)
    while turns.step():
        torch.backends.cuda.matmul.allow_tf32 = not turns.planted
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            features = model(faces)
        update(optimizer, head(features.float(), persons))
