"""Streets told apart by masks (as MaskFormer); the cause asks the GPU for the area of each mask.

As the post-processing of such models in transformers: for each mask of each image three numbers are
read from the GPU. The fix finds the areas of all masks at once, and keeps or drops them there.
"""

# causes: synchronization, tiny_kernels
import torch
from parts import DEVICE, use_gpu
from torch import nn
from torchvision.models import resnet50
from torchvision.models.feature_extraction import create_feature_extractor
from turns import Turns

BATCH, SIZE, QUERIES, KEPT, CLASSES, WIDTH, SHARE = 8, 1024, 100, 20, 20, 256, 0.8


class MaskFormer(nn.Module):
    """Scores of classes, and masks, of a hundred queries."""

    def __init__(self) -> None:
        super().__init__()
        nodes = {"layer1": "fine", "layer4": "coarse"}
        self.features = create_feature_extractor(resnet50(), nodes)
        self.fine, self.coarse = nn.Conv2d(256, WIDTH, 1), nn.Conv2d(2048, WIDTH, 1)
        self.norm = nn.InstanceNorm2d(WIDTH)
        self.queries = nn.Parameter(torch.randn(1, QUERIES, WIDTH))
        layer = nn.TransformerDecoderLayer(WIDTH, 8, 1024, dropout=0.0, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, 6)
        self.classes, self.masks = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, WIDTH)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        maps = self.features(images)
        memory = self.coarse(maps["coarse"])
        fine = self.fine(maps["fine"])
        fine = fine + nn.functional.interpolate(memory, fine.shape[-2:], mode="nearest")
        fine = self.norm(fine)
        queries = self.queries.expand(len(images), -1, -1)
        found = self.decoder(queries, memory.flatten(2).transpose(1, 2))
        masks = torch.einsum("bqc,bchw->bqhw", self.masks(found) / WIDTH**0.5, fine)
        return self.classes(found).float().softmax(-1), masks


def choose(scores: torch.Tensor, masks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The probabilities of the surest masks, and the mask of each pixel."""
    sure, places = scores.amax(-1).topk(KEPT, dim=1)
    chosen = torch.gather(masks, 1, places[:, :, None, None].expand(-1, -1, *masks.shape[-2:]))
    shares = chosen.float().sigmoid()
    return shares, (shares * sure[:, :, None, None]).argmax(1)


def name_by_mask(shares: torch.Tensor, owners: torch.Tensor) -> torch.Tensor:
    """The segment of each pixel, 0 where its mask is mostly hidden by others."""
    segments = torch.zeros_like(owners)
    for image, (masks, owner) in enumerate(zip(shares, owners, strict=True)):
        for number, mask in enumerate(masks):
            mine = owner == number
            area, whole = mine.sum(), (mask >= 0.5).sum()
            if area > 0 and whole > 0 and (area / whole).item() > SHARE:
                segments[image].masked_fill_(mine, number + 1)
    return segments


def name_at_once(shares: torch.Tensor, owners: torch.Tensor) -> torch.Tensor:
    """As name_by_mask."""
    numbers = torch.arange(KEPT, device=DEVICE)
    areas = (owners[:, None] == numbers[:, None, None]).sum((2, 3))
    whole = (shares >= 0.5).sum((2, 3))
    seen = (areas > 0) & (whole > 0) & (areas / whole > SHARE)
    names = torch.where(seen, numbers + 1, 0)
    return names.gather(1, owners.flatten(1)).view_as(owners)


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = MaskFormer().to(DEVICE, torch.bfloat16, memory_format=torch.channels_last).eval()
    images = torch.rand(BATCH, 3, SIZE, SIZE, device=DEVICE, dtype=torch.bfloat16)
    images = images.contiguous(memory_format=torch.channels_last)
    name = {True: name_by_mask, False: name_at_once}
    pixels = torch.zeros((), dtype=torch.int64, device=DEVICE)
    while turns.step():
        scores, masks = model(images)
        segments = name[turns.planted](*choose(scores, masks))
        pixels += (segments > 0).sum()
