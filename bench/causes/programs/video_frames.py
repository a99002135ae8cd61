"""A video network (torchvision); the cause transforms frames one by one on the CPU and stacks them."""
# causes: idle, pageable_copy
import numpy as np
import torch
from parts import DEVICE, image_loss, update, use_gpu
from torchvision.models.video import r3d_18
from torchvision.transforms import v2
from turns import Turns

CLIPS, FRAMES, HEIGHT, WIDTH, VIDEO = 8, 16, 128, 171, 2000


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = r3d_18(num_classes=400).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    transform = v2.Compose(
        [
            v2.Resize(112, antialias=True),
            v2.CenterCrop(112),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.432, 0.395, 0.377], [0.228, 0.221, 0.217]),
        ]
    )
    random = np.random.default_rng(0)
    video = random.integers(256, size=(VIDEO, HEIGHT, WIDTH, 3), dtype=np.uint8)
    labels = torch.randint(400, (CLIPS,), device=DEVICE)
    while turns.step():
        starts = random.integers(VIDEO - FRAMES, size=CLIPS)
        frames = [frame for start in starts for frame in video[start : start + FRAMES]]
        if turns.planted:
            made = [transform(torch.from_numpy(frame).permute(2, 0, 1)) for frame in frames]
            images = torch.stack(made).to(DEVICE)
        else:
            pinned = torch.from_numpy(np.stack(frames)).pin_memory()
            images = transform(pinned.to(DEVICE, non_blocking=True).permute(0, 3, 1, 2))
        clips = images.view(CLIPS, FRAMES, 3, 112, 112).transpose(1, 2)
        update(optimizer, image_loss(model, clips, labels))
