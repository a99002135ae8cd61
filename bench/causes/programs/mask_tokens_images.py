"""Images of tokens that are filled in by rounds (as MaskGIT); the cause masks unsure tokens image by image.

It asks for each image how many tokens are still masked. The fix masks those of all images at once.
"""
# causes: synchronization, tiny_kernels, host_bound
import math

import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

IMAGES, SIDE, CODES, WIDTH, HEADS, LAYERS, ROUNDS, HEAT = 32, 16, 1024, 768, 12, 14, 8, 4.5
PLACES, MASK = SIDE * SIDE, CODES


class Filler(nn.Module):
    """Scores of codes for each place of an image, from the codes that are known."""

    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.Embedding(CODES + 1, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(PLACES, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, CODES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.codes(tokens) + self.places))


class Painter(nn.Module):
    """Codes to pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.Embedding(CODES, 256)
        layers: list[nn.Module] = []
        for inputs, outputs in ((256, 256), (256, 128), (128, 64), (64, 64)):
            layers += [nn.ConvTranspose2d(inputs, outputs, 4, 2, 1), nn.SiLU()]
            layers += [nn.Conv2d(outputs, outputs, 3, padding=1), nn.SiLU()]
        self.layers = nn.Sequential(*layers, nn.Conv2d(64, 3, 3, padding=1))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.codes(tokens).view(-1, SIDE, SIDE, 256).permute(0, 3, 1, 2)
        return self.layers(x).sigmoid()


def mask_one_by_one(
    tokens: torch.Tensor, filled: torch.Tensor, sureness: torch.Tensor, share: float
) -> torch.Tensor:
    """The filled tokens, of which the least sure ones are masked again."""
    for image in range(IMAGES):
        unknown = int((tokens[image] == MASK).sum())
        count = max(min(math.floor(share * PLACES), unknown - 1), 0)
        if count > 0:
            weakest = sureness[image].topk(count, largest=False).indices
            filled[image].index_fill_(0, weakest, MASK)
    return filled


def mask_at_once(
    tokens: torch.Tensor, filled: torch.Tensor, sureness: torch.Tensor, share: float
) -> torch.Tensor:
    """As mask_one_by_one."""
    unknown = (tokens == MASK).sum(1, keepdim=True)
    count = (unknown - 1).clamp(min=0, max=math.floor(share * PLACES))
    ranks = sureness.argsort(1).argsort(1)
    return torch.where(ranks < count, MASK, filled)


def draw(shape: torch.Size) -> torch.Tensor:
    """Gumbel noise."""
    return -torch.empty(shape, device=DEVICE).exponential_().log()


def make_tokens(model: Filler, planted: bool) -> torch.Tensor:
    tokens = torch.full((IMAGES, PLACES), MASK, device=DEVICE)
    for number in range(1, ROUNDS + 1):
        scores = model(tokens).float().log_softmax(-1)
        codes = (scores + draw(scores.shape)).argmax(-1)
        filled = torch.where(tokens == MASK, codes, tokens)
        sureness = scores.gather(2, codes[..., None])[..., 0]
        sureness = sureness + HEAT * (1 - number / ROUNDS) * draw(sureness.shape)
        sureness = torch.where(tokens == MASK, sureness, torch.inf)
        share = math.cos(math.pi / 2 * number / ROUNDS)
        mask = mask_one_by_one if planted else mask_at_once
        tokens = mask(tokens, filled, sureness, share)
    return tokens


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Filler().to(DEVICE, torch.bfloat16).eval()
    painter = Painter().to(DEVICE, torch.bfloat16).eval()
    while turns.step():
        tokens = make_tokens(model, turns.planted)
        (255 * painter(tokens.clamp(max=CODES - 1))).to(torch.uint8).cpu()
