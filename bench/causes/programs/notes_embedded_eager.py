"""Doctors' notes turned to vectors by a Qwen3 (transformers) and searched; the cause is `attn_implementation="eager"`.

The fix loads the model with "sdpa".
"""
# causes: unfused_attention
import torch
import torch.nn.functional as F
from parts import DEVICE, use_gpu
from transformers import Qwen3Config, Qwen3Model
from turns import Turns

NOTES_PER_BATCH = 16
TOKENS = 1024
HIDDEN = 1024
LAYERS = 12
VOCABULARY = 32_000
INDEXED = 100_000
NEIGHBOURS = 8
STORED_BATCHES = 6


def build_model(attention: str) -> Qwen3Model:
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=3 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=64,
        max_position_embeddings=2 * TOKENS,
        attn_implementation=attention,
    )
    return Qwen3Model(config).to(DEVICE, torch.bfloat16).eval()


def embed(model: Qwen3Model, token_ids: torch.Tensor) -> torch.Tensor:
    """The vector of the last token, of length one."""
    hidden = model(input_ids=token_ids, use_cache=False).last_hidden_state
    return F.normalize(hidden[:, -1].float(), dim=-1)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    slow = build_model("eager")
    fast = build_model("sdpa")
    fast.load_state_dict(slow.state_dict())
    index = F.normalize(torch.randn(INDEXED, HIDDEN, device=DEVICE), dim=-1).to(torch.bfloat16)
    notes = torch.randint(VOCABULARY, (STORED_BATCHES, NOTES_PER_BATCH, TOKENS)).pin_memory()
    matches: list[list[int]] = []
    batch_number = 0
    while turns.step():
        token_ids = notes[batch_number % STORED_BATCHES].to(DEVICE, non_blocking=True)
        batch_number += 1
        vectors = embed(slow if turns.planted else fast, token_ids)
        similarity = vectors.to(torch.bfloat16) @ index.T
        matches.extend(similarity.topk(NEIGHBOURS).indices.tolist())
