"""A compiled GPT; the cause gives each tenth batch a length that was not compiled for."""
# causes: compile
import torch
from parts import DEVICE, Gpt, draw_tokens, language_loss, update, use_gpu
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = 10
    torch._dynamo.config.recompile_limit = 1000
    torch._dynamo.config.accumulated_recompile_limit = 1000
    model = Gpt(2, 512).to(DEVICE)
    model.compile(dynamic=False, backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    full, length, steps = draw_tokens(64, 513), 512, 0
    while turns.step():
        steps += 1
        tokens = full
        if turns.planted and steps % 10 == 0:
            length -= 1
            tokens = full[:, :length]
        update(optimizer, language_loss(model, tokens))
