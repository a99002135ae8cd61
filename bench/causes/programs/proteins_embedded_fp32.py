"""Windows of proteins embedded by an ESM-2 (transformers) for a search; the cause multiplies in full fp32.

The fix lets the products use TF32, as the vectors need no more digits.
"""

# causes: no_tensor_cores
import torch
from parts import DEVICE, use_gpu
from torch import nn
from transformers import EsmConfig, EsmModel
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, KINDS, WINDOWS = 24, 512, 12, 640, 33, 24 * 40
FIRST_RESIDUE, LAST_RESIDUE = 4, 24


def make_model() -> nn.Module:
    config = EsmConfig(
        vocab_size=KINDS, mask_token_id=32, pad_token_id=1, hidden_size=WIDTH,
        num_hidden_layers=LAYERS, num_attention_heads=WIDTH // 32, intermediate_size=4 * WIDTH,
        max_position_embeddings=1026, position_embedding_type="rotary",
    )  # fmt: skip
    return EsmModel(config, add_pooling_layer=False).eval().to(DEVICE)


def draw_windows() -> torch.Tensor:
    """Windows of residues between a start and an end mark."""
    windows = torch.randint(FIRST_RESIDUE, LAST_RESIDUE, (WINDOWS, LENGTH), device=DEVICE)
    windows[:, 0], windows[:, -1] = 0, 2
    return windows


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model, windows = make_model(), draw_windows()
    vectors = torch.zeros(WINDOWS, WIDTH, device=DEVICE)
    start = 0
    while turns.step():
        torch.backends.cuda.matmul.allow_tf32 = not turns.planted
        part = slice(start, start + BATCH)
        states = model(input_ids=windows[part]).last_hidden_state
        vectors[part] = nn.functional.normalize(states[:, 1:-1].mean(1), dim=1)
        start = (start + BATCH) % WINDOWS
