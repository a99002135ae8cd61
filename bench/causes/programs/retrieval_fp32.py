"""Search for texts by BERT in fp32; the cause keeps its matrix products off the tensor cores."""
# causes: no_tensor_cores
import torch
from parts import DEVICE, use_gpu
from torch import nn
from transformers import BertConfig, BertModel
from turns import Turns

QUERIES, LENGTH, WORDS, TEXTS = 32, 256, 16384, 400_000


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    config = BertConfig(vocab_size=WORDS)
    model = BertModel(config, add_pooling_layer=False).to(DEVICE).eval()
    texts = nn.functional.normalize(torch.randn(TEXTS, config.hidden_size, device=DEVICE), dim=1)
    queries = torch.randint(1, WORDS, (QUERIES, LENGTH), device=DEVICE)
    everywhere = torch.ones_like(queries)
    while turns.step():
        torch.set_float32_matmul_precision("highest" if turns.planted else "high")
        words = model(input_ids=queries, attention_mask=everywhere).last_hidden_state
        vectors = nn.functional.normalize(words.mean(1), dim=1)
        best = (vectors @ texts.T).topk(10)
        assert len(best.indices.tolist()) == QUERIES
