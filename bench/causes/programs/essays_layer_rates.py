"""Essays scored by a RoBERTa (transformers) whose lower layers learn slower; the cause is a group of the optimizer for each weight.

AdamW steps the weights of a group at once, so it steps 200 groups of one weight. The fix has a
group for each rate and decay.
"""

# causes: tiny_kernels, host_bound
from collections import defaultdict
from typing import Any

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from transformers import RobertaConfig, RobertaForSequenceClassification
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, WORDS = 48, 256, 12, 768, 16384
RATE, SLOWER, DECAY = 2e-5, 0.9, 0.01


def make_model() -> nn.Module:
    config = RobertaConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=12,
        intermediate_size=4 * WIDTH, max_position_embeddings=LENGTH + 8, num_labels=1,
        problem_type="regression",
    )  # fmt: skip
    return RobertaForSequenceClassification(config).to(DEVICE)


def find_depth(name: str) -> int:
    """How many layers lie over a weight."""
    if ".layer." in name:
        return LAYERS - int(name.split(".layer.")[1].split(".")[0])
    return LAYERS + 1 if "embeddings" in name else 0


def choose(name: str) -> tuple[float, float]:
    """The rate and the decay of a weight."""
    decay = 0.0 if name.endswith("bias") or "LayerNorm" in name else DECAY
    return RATE * SLOWER ** find_depth(name), decay


def group_each(model: nn.Module) -> list[dict[str, Any]]:
    groups = []
    for name, weight in model.named_parameters():
        rate, decay = choose(name)
        groups.append({"params": [weight], "lr": rate, "weight_decay": decay})
    return groups


def group_alike(model: nn.Module) -> list[dict[str, Any]]:
    alike = defaultdict(list)
    for name, weight in model.named_parameters():
        alike[choose(name)].append(weight)
    return [
        {"params": weights, "lr": rate, "weight_decay": decay}
        for (rate, decay), weights in alike.items()
    ]


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = make_model()
    each, alike = (torch.optim.AdamW(group(model)) for group in (group_each, group_alike))
    words = torch.randint(3, WORDS, (BATCH, LENGTH), device=DEVICE)
    scores = torch.rand(BATCH, 1, device=DEVICE)
    while turns.step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found = model(input_ids=words).logits
        loss = nn.functional.mse_loss(found.float(), scores)
        update(each if turns.planted else alike, loss)
