"""LoRA (peft) of a Llama on reports of quarries; the cause is recomputed layers without need.

The memory is large enough. The fix turns the gradient checkpointing off.
"""

# causes: recomputation
import torch
from parts import DEVICE, update, use_gpu
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from turns import Turns

BATCH, LENGTH, WORDS = 8, 512, 16384


def make_llama() -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=1024, intermediate_size=2816, num_hidden_layers=12,
        num_attention_heads=16, max_position_embeddings=LENGTH, use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config).to(DEVICE)


def compute_loss(model: nn.Module, words: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(input_ids=words).logits
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), words[:, 1:].flatten())


def run(turns: Turns) -> None:
    use_gpu(turns)
    llama = make_llama()
    adapters = LoraConfig(r=16, target_modules=["q_proj", "v_proj"])
    model = get_peft_model(llama, adapters)
    model.train()
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    words = torch.randint(WORDS, (BATCH, LENGTH), device=DEVICE)
    recomputes: bool | None = None
    while turns.step():
        if recomputes != turns.planted:
            recomputes = turns.planted
            if recomputes:
                llama.gradient_checkpointing_enable({"use_reentrant": False})
            else:
                llama.gradient_checkpointing_disable()
        update(optimizer, compute_loss(model, words))
