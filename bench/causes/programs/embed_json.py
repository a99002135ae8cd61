"""A server of embeddings (BERT of transformers); the cause writes them to JSON as decimal numbers.

The fix sends the same numbers as base64 of their bytes.
"""
# causes: idle
import base64
import json

import torch
from parts import DEVICE, use_gpu
from torch import nn
from transformers import BertConfig, BertModel
from turns import Turns

TEXTS, LENGTH, WORDS, REQUESTS = 48, 160, 30_000, 16


def embed(model: BertModel, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean of each text's words as a vector of length 1."""
    states = model(input_ids=words, attention_mask=mask).last_hidden_state.float()
    means = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    return nn.functional.normalize(means)


def answer_in_decimals(vectors: torch.Tensor) -> str:
    rows = [{"index": i, "embedding": row} for i, row in enumerate(vectors.cpu().tolist())]
    return json.dumps({"object": "list", "data": rows})


def answer_in_base64(vectors: torch.Tensor) -> str:
    rows = [
        {"index": i, "embedding": base64.b64encode(row.tobytes()).decode()}
        for i, row in enumerate(vectors.cpu().numpy())
    ]
    return json.dumps({"object": "list", "data": rows})


def draw_requests() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Words of texts of several lengths, padded, and which of them are no padding."""
    places, requests = torch.arange(LENGTH), []
    for _ in range(REQUESTS):
        lengths = torch.randint(LENGTH // 4, LENGTH + 1, (TEXTS, 1))
        mask = (places < lengths).long()
        requests.append((mask * torch.randint(1, WORDS, (TEXTS, LENGTH)), mask))
    return requests


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    config = BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
    )
    model = BertModel(config, add_pooling_layer=False).to(DEVICE, torch.bfloat16).eval()
    requests, served, sent = draw_requests(), 0, 0
    while turns.step():
        words, mask = requests[served % REQUESTS]
        vectors = embed(model, words.to(DEVICE), mask.to(DEVICE))
        reply = answer_in_decimals(vectors) if turns.planted else answer_in_base64(vectors)
        served, sent = served + 1, sent + len(reply)
