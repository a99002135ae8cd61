"""Photographs told by a SigLIP (transformers) and texts; the cause loads it with `attn_implementation="eager"`.

The fix loads it with "sdpa".
"""
# causes: unfused_attention
import torch
from parts import DEVICE, use_gpu
from transformers import SiglipVisionConfig, SiglipVisionModel
from turns import Turns

PHOTOS, SIZE, PATCH, WIDTH, HEADS, LAYERS, TEXTS, BEST, BATCHES = 24, 512, 16, 768, 12, 12, 1000, 5, 4


def load_model(attention: str) -> SiglipVisionModel:
    config = SiglipVisionConfig(
        hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, image_size=SIZE, patch_size=PATCH, attn_implementation=attention,
    )  # fmt: skip
    return SiglipVisionModel(config).eval().to(DEVICE, torch.bfloat16)


def tell(model: SiglipVisionModel, photos: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
    """The texts that say best what is in each photograph, on the CPU."""
    pixels = photos.to(DEVICE, non_blocking=True).to(torch.bfloat16) / 127.5 - 1
    found = torch.nn.functional.normalize(model(pixel_values=pixels).pooler_output, dim=-1)
    return (100 * found @ texts.T).topk(BEST).indices.cpu()


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    eager, fused = load_model("eager"), load_model("sdpa")
    fused.load_state_dict(eager.state_dict())
    texts = torch.nn.functional.normalize(torch.randn(TEXTS, WIDTH, device=DEVICE), dim=-1)
    texts = texts.to(torch.bfloat16)
    batches = torch.randint(256, (BATCHES, PHOTOS, 3, SIZE, SIZE), dtype=torch.uint8).pin_memory()
    steps, told = 0, 0
    while turns.step():
        best = tell(eager if turns.planted else fused, batches[steps % BATCHES], texts)
        steps, told = steps + 1, told + int(best[0, 0] == 0)
