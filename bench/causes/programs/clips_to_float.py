"""Gestures in clips told by an S3D (torchvision); the cause makes a batch of bytes to floats on the host.

So what the loader has pinned is pageable again, and four times as large. The fix copies the bytes,
and scales them on the GPU.
"""
# causes: pageable_copy, idle
import torch
from parts import DEVICE, image_loss, repeat, update, use_gpu
from torch.utils.data import DataLoader, Dataset
from torchvision.models.video import s3d
from turns import Turns

BATCH, FRAMES, SIDE, GESTURES, STORED, WORKERS = 8, 16, 224, 27, 24, 4
MEAN, SPREAD = (0.43216, 0.394666, 0.37645), (0.22803, 0.22145, 0.216989)


class Clips(Dataset[tuple[torch.Tensor, int]]):
    """Clips as bytes, mirrored by chance."""

    def __init__(self) -> None:
        self.clips = torch.randint(256, (STORED, 3, FRAMES, SIDE, SIDE), dtype=torch.uint8)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        clip = self.clips[index % STORED]
        return clip.flip(-1) if index % 2 else clip, index % GESTURES


def scale(clips: torch.Tensor, mean: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
    """Bytes to floats of mean 0 and spread 1, where the bytes are."""
    return clips.float().div_(255).sub_(mean).div_(spread)


def run(turns: Turns) -> None:
    use_gpu(turns)
    loader = DataLoader(Clips(), BATCH, num_workers=WORKERS, pin_memory=True, drop_last=True)
    batches = repeat(loader)
    model = s3d(num_classes=GESTURES).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=True)
    mean, spread = (torch.tensor(values).view(1, 3, 1, 1, 1) for values in (MEAN, SPREAD))
    on_gpu = mean.to(DEVICE), spread.to(DEVICE)
    while turns.step():
        clips, gestures = next(batches)
        if turns.planted:
            clips = scale(clips, mean, spread).to(DEVICE, non_blocking=True)
        else:
            clips = scale(clips.to(DEVICE, non_blocking=True), *on_gpu)
        gestures = gestures.to(DEVICE, non_blocking=True)
        update(optimizer, image_loss(model, clips, gestures))
