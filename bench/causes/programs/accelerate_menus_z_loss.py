"""accelerate trains a Llama on menus; the cause is a smoothed loss with a z-term in eager kernels.

The fix compiles the loss.
"""

# causes: unfused_elementwise
import torch
from accelerate import Accelerator
from parts import DEVICE, use_gpu
from transformers import LlamaConfig, LlamaForCausalLM
from turns import Turns

BATCH, LENGTH, WORDS, SMOOTHING, WEIGHT = 8, 512, 32000, 0.1, 1e-4


def make_model() -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=768, intermediate_size=2048, num_hidden_layers=6,
        num_attention_heads=12, max_position_embeddings=LENGTH, use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config).to(DEVICE)


def smooth(logits: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """The cross entropy of smoothed labels, and a term that keeps the sums of logits small."""
    logits = logits.float()
    most = logits.detach().amax(-1, keepdim=True)
    sums = (logits - most).exp().sum(-1, keepdim=True).log() + most
    logarithms = logits - sums
    right = logarithms.gather(-1, words[..., None])
    shared = logarithms.mean(-1, keepdim=True)
    entropy = -((1 - SMOOTHING) * right + SMOOTHING * shared).mean()
    return entropy + WEIGHT * sums.square().mean()


def run(turns: Turns) -> None:
    use_gpu(turns)
    accelerator = Accelerator(mixed_precision="bf16")
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    model, optimizer = accelerator.prepare(model, optimizer)
    words = torch.randint(WORDS, (BATCH, LENGTH), device=DEVICE)
    following = words.roll(-1, 1)
    compiled = torch.compile(smooth)
    while turns.step():
        logits = model(input_ids=words).logits
        loss = (smooth if turns.planted else compiled)(logits, following)
        optimizer.zero_grad(set_to_none=True)
        accelerator.backward(loss)
        optimizer.step()
