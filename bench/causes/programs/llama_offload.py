"""A Llama (transformers), activations kept on the CPU; the cause leaves that memory pageable."""
# causes: pageable_copy
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from torch.autograd.graph import save_on_cpu
from transformers import LlamaConfig, LlamaModel
from turns import Turns

BATCH, LENGTH, WIDTH, LAYERS, WORDS = 2, 512, 512, 4, 8192


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=1408, num_hidden_layers=LAYERS,
        num_attention_heads=8, num_key_value_heads=8, max_position_embeddings=LENGTH,
    )  # fmt: skip
    model = LlamaModel(config).to(DEVICE, torch.bfloat16).train()
    head = nn.Linear(WIDTH, WORDS, bias=False).to(DEVICE, torch.bfloat16)
    weights = [*model.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=1e-4, fused=True)
    words = torch.randint(WORDS, (BATCH, LENGTH + 1), device=DEVICE)
    while turns.step():
        with save_on_cpu(pin_memory=not turns.planted):
            hidden = model(input_ids=words[:, :-1], use_cache=False).last_hidden_state
        scores = head(hidden).float().flatten(0, 1)
        update(optimizer, nn.functional.cross_entropy(scores, words[:, 1:].flatten()))
