"""Features of the patches of fine pictures by a DINOv2 (transformers); the cause loads it with eager attention.

It writes a matrix of 1370 x 1370 for each head, and its softmax. The fix loads it with SDPA.
"""

# causes: unfused_attention
import torch
from parts import DEVICE, use_gpu
from torch import nn
from transformers import AutoModel, Dinov2Config
from turns import Turns

BATCH, SIDE, PATCH, LAYERS, WIDTH, HEADS, BATCHES = 10, 518, 14, 12, 768, 12, 4


def make_models() -> dict[str, nn.Module]:
    """A model of each attention, with the same weights."""
    models = {}
    for attention in ("eager", "sdpa"):
        config = Dinov2Config(
            hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
            image_size=SIDE, patch_size=PATCH,
        )  # fmt: skip
        model = AutoModel.from_config(config, attn_implementation=attention)
        models[attention] = model.eval().to(DEVICE, torch.bfloat16)
    models["sdpa"].load_state_dict(models["eager"].state_dict())
    return models


def pool_places(states: torch.Tensor) -> torch.Tensor:
    """The mean feature of each of 37 rows of patches, of length one."""
    patches = states[:, 1:].unflatten(1, (SIDE // PATCH, SIDE // PATCH))
    return nn.functional.normalize(patches.float().mean(2), dim=-1)


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    models = make_models()
    shape = (BATCHES, BATCH, 3, SIDE, SIDE)
    pictures = torch.randint(256, shape, dtype=torch.uint8, device=DEVICE)
    kept = torch.zeros(BATCHES, BATCH, SIDE // PATCH, WIDTH, device=DEVICE)
    taken = 0
    while turns.step():
        model = models["eager" if turns.planted else "sdpa"]
        pixels = (pictures[taken].bfloat16() - 120) / 60
        kept[taken] = pool_places(model(pixel_values=pixels).last_hidden_state)
        taken = (taken + 1) % BATCHES
