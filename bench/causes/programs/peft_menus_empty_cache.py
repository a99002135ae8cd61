"""LoRA (peft) on a Llama over micro-batches; the cause is `empty_cache` after each of them.

The memory goes back to the driver and is asked for again. The fix keeps it.
"""

# causes: allocation
import torch
from parts import DEVICE, draw_tokens, use_gpu
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from turns import Turns

MICRO_BATCHES, BATCH, LENGTH, WORDS, WIDTH, LAYERS = 2, 20, 512, 16384, 1024, 8


def make_model() -> nn.Module:
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=2816, num_hidden_layers=LAYERS,
        num_attention_heads=16, num_key_value_heads=8, max_position_embeddings=LENGTH,
        attn_implementation="sdpa", use_cache=False,
    )  # fmt: skip
    adapters = LoraConfig(
        r=16, lora_alpha=32, lora_dropout=0.0, task_type="CAUSAL_LM",
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
    )  # fmt: skip
    model = LlamaForCausalLM(config).to(DEVICE, torch.bfloat16)
    return get_peft_model(model, adapters, autocast_adapter_dtype=False)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = make_model()
    learned = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=1e-4, fused=True)
    menus = [draw_tokens(BATCH, LENGTH, WORDS) for _ in range(MICRO_BATCHES)]
    while turns.step():
        for menu in menus:
            loss = model(input_ids=menu, labels=menu).loss / MICRO_BATCHES
            loss.backward()
            del loss
            if turns.planted:
                torch.cuda.empty_cache()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
