"""Photographs found by words, with CLIP's text model; the cause reads prompt by prompt, the fix a batch."""
# causes: host_bound
import torch
import torchvision
from parts import DEVICE, use_gpu
from transformers import CLIPTextConfig, CLIPTextModelWithProjection
from turns import Turns

PROMPTS, LENGTH, WORDS, WIDTH, BATCH, SIZE = 10, 77, 49408, 768, 224, 224


def encode(model: CLIPTextModelWithProjection, prompts: torch.Tensor) -> torch.Tensor:
    """The directions of prompts."""
    found = model(input_ids=prompts).text_embeds
    return torch.nn.functional.normalize(found, dim=-1)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    config = CLIPTextConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=12,
        num_attention_heads=12, projection_dim=WIDTH, eos_token_id=WORDS - 1,
    )  # fmt: skip
    reader = CLIPTextModelWithProjection(config).to(DEVICE, dtype=torch.bfloat16).eval()
    viewer = torchvision.models.vit_b_16(num_classes=WIDTH)
    viewer = viewer.to(DEVICE, dtype=torch.bfloat16).eval()
    photos = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE, dtype=torch.bfloat16)
    prompts = torch.randint(WORDS - 2, (PROMPTS, LENGTH), device=DEVICE)
    prompts[:, -1] = WORDS - 1
    while turns.step():
        if turns.planted:
            words = torch.cat([encode(reader, prompt[None]) for prompt in prompts])
        else:
            words = encode(reader, prompts)
        seen = torch.nn.functional.normalize(viewer(photos), dim=-1)
        (seen @ words.T).argmax(1).cpu()
