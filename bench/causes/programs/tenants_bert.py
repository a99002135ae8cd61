"""A server with a BERT for each customer; the cause copies weights that are not pinned to the GPU.

The GPU has room for the model of one customer, so a batch begins with the copy of the weights. The
fix keeps all customers' weights in pinned memory.
"""

# causes: pageable_copy
import torch
from parts import DEVICE, use_gpu
from torch import nn
from transformers import BertConfig, BertModel
from turns import Turns

CUSTOMERS, BATCH, LENGTH, LAYERS, WIDTH, WORDS, KINDS = 4, 112, 256, 12, 768, 16384, 16


def make_model() -> BertModel:
    config = BertConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=12,
        intermediate_size=4 * WIDTH, max_position_embeddings=LENGTH,
    )  # fmt: skip
    return BertModel(config, add_pooling_layer=False).to(DEVICE, torch.bfloat16).eval()


def flatten(model: nn.Module) -> torch.Tensor:
    """All weights as one tensor, of which the model's weights are parts."""
    flat = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    start = 0
    for weight in model.parameters():
        weight.data = flat[start : start + weight.numel()].view_as(weight)
        start += weight.numel()
    return flat


def tune(flat: torch.Tensor) -> torch.Tensor:
    """The weights of a customer, on the host."""
    return (flat + 1e-3 * torch.randn_like(flat)).cpu()


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = make_model()
    head = nn.Linear(WIDTH, KINDS, device=DEVICE, dtype=torch.bfloat16)
    flat = flatten(model)
    pageable = [tune(flat) for _ in range(CUSTOMERS)]
    pinned = [weights.pin_memory() for weights in pageable]
    words = torch.randint(WORDS, (CUSTOMERS, BATCH, LENGTH), device=DEVICE)
    counts = torch.zeros(CUSTOMERS, KINDS, device=DEVICE)
    taken = 0
    while turns.step():
        customer = taken % CUSTOMERS
        kept = pageable if turns.planted else pinned
        flat.copy_(kept[customer], non_blocking=True)
        found = model(input_ids=words[customer]).last_hidden_state[:, 0]
        counts[customer] += head(found).float().softmax(-1).sum(0)
        taken += 1
