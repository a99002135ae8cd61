"""LoRA (peft) of a GPT-2 to stored logits of a teacher; the cause is that they are not pinned.

The fix keeps them in pinned memory and copies without a wait.
"""

# causes: pageable_copy
import torch
from parts import DEVICE, update, use_gpu
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel
from turns import Turns

BATCH, LENGTH, WORDS, STORED = 8, 512, 16384, 4


def make_model() -> nn.Module:
    config = GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=1024, n_layer=12, n_head=16)
    adapters = LoraConfig(r=16, target_modules=["c_attn"], fan_in_fan_out=True)
    return get_peft_model(GPT2LMHeadModel(config), adapters).to(DEVICE)


def compare(model: nn.Module, words: torch.Tensor, taught: torch.Tensor) -> torch.Tensor:
    """The divergence of the model's words from the teacher's."""
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(input_ids=words).logits
    found = nn.functional.log_softmax(logits.float().flatten(0, 1), dim=1)
    wanted = nn.functional.log_softmax(taught.float().flatten(0, 1), dim=1)
    return nn.functional.kl_div(found, wanted, reduction="batchmean", log_target=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = make_model()
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    words = torch.randint(WORDS, (BATCH, LENGTH), device=DEVICE)
    stored = [torch.randn(BATCH, LENGTH, WORDS).bfloat16() for _ in range(STORED)]
    pinned = [logits.pin_memory() for logits in stored]
    number = 0
    while turns.step():
        number += 1
        source = stored if turns.planted else pinned
        taught = source[number % STORED].to(DEVICE, non_blocking=True)
        update(optimizer, compare(model, words, taught))
