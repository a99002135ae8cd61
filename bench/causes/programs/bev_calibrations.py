"""Streets seen from above by six cameras of a car (lift, splat); the cause copies each camera's calibration by itself.

`images.new_tensor(camera[key])` for each camera and key, as in many heads of mmdetection3d. The fix
joins those of a batch by NumPy and copies one pinned tensor.
"""
# causes: many_small_copies, synchronization, host_bound
import numpy as np
import torch
import torchvision
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

SAMPLES, CAMERAS, HEIGHT, BREADTH, STRIDE = 8, 6, 224, 448, 16
DEPTHS, CHANNELS, WIDTH, SIDE, CLASSES, STORED = 40, 64, 128, 160, 6, 4
VIEWS, ROWS, COLUMNS = SAMPLES * CAMERAS, HEIGHT // STRIDE, BREADTH // STRIDE
SHAPES = {
    "undo_augmentation": (3, 3), "pixel_to_camera": (3, 3), "camera_to_car": (4, 4),
    "car_to_grid": (4, 4), "exposure": (2,),
}  # fmt: skip

Camera = dict[str, np.ndarray]


def draw_camera(random: np.random.Generator, number: int) -> Camera:
    """A camera that looks to one of six sides; the grid has 0.5 m a cell."""
    angle = np.pi / 3 * number + random.normal(0, 0.02)
    cosine, sine = np.cos(angle), np.sin(angle)
    focal, size = 0.6 * BREADTH, 1 + random.normal(0, 0.05)
    shift = random.normal(0, 4, 2)
    pixels = [[1 / focal, 0, -0.5 * BREADTH / focal], [0, 1 / focal, -0.5 * HEIGHT / focal]]
    car = [[sine, 0, cosine, 0], [-cosine, 0, sine, 0], [0, -1, 0, 1.5], [0, 0, 0, 1]]
    grid = [[2, 0, 0, SIDE / 2], [0, 2, 0, SIDE / 2], [0, 0, 2, 0], [0, 0, 0, 1]]
    values = {
        "undo_augmentation": [[size, 0, shift[0]], [0, size, shift[1]], [0, 0, 1]],
        "pixel_to_camera": [*pixels, [0, 0, 1]],
        "camera_to_car": car,
        "car_to_grid": grid,
        "exposure": [1 + random.normal(0, 0.05), random.normal(0, 0.05)],
    }
    return {key: np.array(value, np.float32) for key, value in values.items()}


def copy_each(images: torch.Tensor, cameras: list[Camera]) -> dict[str, torch.Tensor]:
    return {
        key: torch.stack([images.new_tensor(camera[key]) for camera in cameras]) for key in SHAPES
    }


def copy_at_once(cameras: list[Camera]) -> dict[str, torch.Tensor]:
    """The same tensors as views of one."""
    columns = [np.stack([camera[key].ravel() for camera in cameras]) for key in SHAPES]
    packed = torch.from_numpy(np.concatenate(columns, 1)).pin_memory()
    parts = packed.to(DEVICE, non_blocking=True).split([one.shape[1] for one in columns], 1)
    return {
        key: part.reshape(len(cameras), *shape)
        for (key, shape), part in zip(SHAPES.items(), parts, strict=True)
    }


def convolve(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()
    )


class FromAbove(nn.Module):
    """Images and calibrations to scores of each cell of the ground."""

    def __init__(self) -> None:
        super().__init__()
        body = torchvision.models.resnet18()
        self.body = nn.Sequential(*list(body.children())[:-3])
        self.lift = nn.Conv2d(256, DEPTHS + CHANNELS, 1)
        widths = [CHANNELS] + 6 * [WIDTH]
        self.ground = nn.Sequential(
            *(convolve(*pair) for pair in zip(widths, widths[1:], strict=False)),
            nn.Conv2d(WIDTH, CLASSES, 1),
        )
        rows = (torch.arange(ROWS) + 0.5) * STRIDE
        columns = (torch.arange(COLUMNS) + 0.5) * STRIDE
        row, column = torch.meshgrid(rows, columns, indexing="ij")
        pixels = torch.stack([column, row, torch.ones_like(row)], -1)
        self.register_buffer("pixels", pixels.view(-1, 3))
        self.register_buffer("depths", 2 + torch.arange(DEPTHS).float())
        first = torch.arange(VIEWS) // CAMERAS * SIDE * SIDE
        self.register_buffer("first", first.view(-1, 1, 1))

    @torch.autocast("cuda", enabled=False)
    def find_cells(self, cameras: dict[str, torch.Tensor]) -> torch.Tensor:
        """The cell of each depth of each pixel; the last one is for all that is outside."""
        rays = cameras["pixel_to_camera"] @ cameras["undo_augmentation"]
        rays = self.pixels @ rays.transpose(1, 2)
        move = cameras["car_to_grid"] @ cameras["camera_to_car"]
        points = (self.depths[:, None, None] * rays[:, None]) @ move[:, None, :3, :3].mT
        places = (points + move[:, None, None, :3, 3])[..., :2].floor().long()
        inside = ((places >= 0) & (places < SIDE)).all(-1)
        cells = self.first + places[..., 1] * SIDE + places[..., 0]
        return torch.where(inside, cells, SAMPLES * SIDE * SIDE)

    def forward(self, images: torch.Tensor, cameras: dict[str, torch.Tensor]) -> torch.Tensor:
        gain, offset = cameras["exposure"][..., None, None, None].unbind(1)
        x = self.lift(self.body(images * gain + offset)).flatten(2).float()
        shares, features = x[:, :DEPTHS].softmax(1), x[:, DEPTHS:]
        lifted = shares[..., None] * features.transpose(1, 2)[:, None]
        ground = lifted.new_zeros(SAMPLES * SIDE * SIDE + 1, CHANNELS)
        ground = ground.index_add(0, self.find_cells(cameras).flatten(), lifted.flatten(0, 2))
        maps = ground[:-1].view(SAMPLES, SIDE, SIDE, CHANNELS).permute(0, 3, 1, 2)
        return self.ground(maps)


def run(turns: Turns) -> None:
    use_gpu(turns)
    random = np.random.default_rng(0)
    stored = [
        [draw_camera(random, view % CAMERAS) for view in range(VIEWS)] for _ in range(STORED)
    ]
    model = FromAbove().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    images = torch.rand(VIEWS, 3, HEIGHT, BREADTH, device=DEVICE)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(CLASSES, (SAMPLES, SIDE, SIDE), device=DEVICE)
    steps = 0
    while turns.step():
        cameras, steps = stored[steps % STORED], steps + 1
        copied = copy_each(images, cameras) if turns.planted else copy_at_once(cameras)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(images, copied)
        update(optimizer, nn.functional.cross_entropy(scores.float(), labels))
