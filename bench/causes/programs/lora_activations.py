"""A Llama tuned with LoRA; the cause reads the range of each product as it comes.

The fix keeps the numbers on the GPU, and reads them in each tenth step.
"""
# causes: synchronization, host_bound
from functools import partial

import torch
from parts import DEVICE, draw_tokens, update, use_gpu
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, WORDS, PERIOD, LIMIT = 8, 512, 14, 1024, 8192, 10, 1e4


class Watch:
    """Looks for linear layers whose results grow out of the range of 16 bits."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.ranges: dict[str, tuple[float, float]] = {}
        self.kept: list[tuple[str, torch.Tensor, torch.Tensor]] = []
        self.warnings = 0

    def attach(self, model: nn.Module) -> None:
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear):
                module.register_forward_hook(partial(self.look, name))

    def look(self, name: str, _module: nn.Module, _inputs: object, output: torch.Tensor) -> None:
        result = output.detach()
        if self.turns.planted:
            self.note(name, result.abs().max().item(), result.std().item())
        else:
            self.kept.append((name, result.abs().max(), result.std()))

    def note(self, name: str, greatest: float, deviation: float) -> None:
        self.ranges[name] = (greatest, deviation)
        self.warnings += greatest > LIMIT

    def read(self) -> None:
        """Take over what was kept on the GPU."""
        if self.kept:
            names, greatest, deviations = zip(*self.kept, strict=True)
            values = torch.stack([torch.stack(greatest), torch.stack(deviations)]).tolist()
            for name, most, deviation in zip(names, *values, strict=True):
                self.note(name, most, deviation)
            self.kept.clear()


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = PERIOD
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=3 * WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=16, num_key_value_heads=8, max_position_embeddings=LENGTH,
    )  # fmt: skip
    base = LlamaForCausalLM(config).to(DEVICE, torch.bfloat16)
    adapters = LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"])
    watch = Watch(turns)
    watch.attach(base.model)
    model = get_peft_model(base, adapters)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    tokens = draw_tokens(BATCH, LENGTH, WORDS)
    steps = 0
    while turns.step():
        update(optimizer, model(input_ids=tokens, labels=tokens, use_cache=False).loss)
        steps += 1
        if steps % PERIOD == 0:
            watch.read()
