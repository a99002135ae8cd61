"""A ViT from torchvision; the cause gives its loader too few workers for its transform."""
# causes: idle
import numpy as np
import torch
import torchvision
from parts import DEVICE, image_loss, repeat, update, use_gpu
from torch.utils.data import DataLoader, Dataset
from turns import Turns


class Images(Dataset[tuple[torch.Tensor, int]]):
    """Images that a transform of 2 to 3 ms makes on the CPU."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        draw = np.random.default_rng(index)
        image = draw.random((3, 224, 224), np.float32)
        image = (image - image.mean()) / image.std()
        return torch.from_numpy(np.ascontiguousarray(image[:, :, ::-1])), index % 1000


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = torchvision.models.vit_b_16().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    few, many = (
        repeat(DataLoader(Images(), 48, num_workers=workers, pin_memory=True, drop_last=True))
        for workers in (1, 8)
    )
    while turns.step():
        images, labels = next(few if turns.planted else many)
        images = images.to(DEVICE, non_blocking=True)
        update(optimizer, image_loss(model, images, labels.to(DEVICE, non_blocking=True)))
