"""Texts that a Llama (transformers) writes; the cause draws each next word by NumPy from the scores of all words.

The fix draws it on the GPU.
"""
# causes: idle, pageable_copy
import numpy as np
import torch
from parts import DEVICE, use_gpu
from transformers import LlamaConfig, LlamaForCausalLM
from turns import Turns

TEXTS, PROMPT, WRITTEN, WORDS, KEPT, HEAT, WIDTH, LAYERS = 8, 256, 6, 16_384, 50, 0.8, 1024, 12


def draw_on_host(scores: torch.Tensor, random: np.random.Generator) -> torch.Tensor:
    """A word for each text, one of the KEPT likeliest."""
    on_host = scores.float().cpu().numpy() / HEAT
    likeliest = np.argpartition(on_host, -KEPT, axis=1)[:, -KEPT:]
    kept = np.take_along_axis(on_host, likeliest, axis=1)
    shares = np.exp(kept - kept.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    words = [random.choice(row, p=share) for row, share in zip(likeliest, shares, strict=True)]
    return torch.tensor(np.array(words))[:, None].to(DEVICE)


def draw_on_gpu(scores: torch.Tensor) -> torch.Tensor:
    """As draw_on_host."""
    kept, likeliest = (scores.float() / HEAT).topk(KEPT)
    return likeliest.gather(1, torch.multinomial(kept.softmax(1), 1))


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    random = np.random.default_rng(0)
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=2816, num_hidden_layers=LAYERS,
        num_attention_heads=16, num_key_value_heads=16,
    )  # fmt: skip
    with torch.device(DEVICE):
        model = LlamaForCausalLM(config).bfloat16().eval()
    prompts = torch.randint(WORDS, (TEXTS, PROMPT), device=DEVICE)
    texts = []
    while turns.step():
        words, cache, text = prompts, None, []
        for _ in range(WRITTEN):
            out = model(input_ids=words, past_key_values=cache, use_cache=True, logits_to_keep=1)
            scores, cache = out.logits[:, -1], out.past_key_values
            words = draw_on_host(scores, random) if turns.planted else draw_on_gpu(scores)
            text.append(words)
        texts.append(torch.cat(text, 1).cpu())
