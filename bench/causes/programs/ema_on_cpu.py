"""A transformer; the cause keeps an average of its weights on the CPU, the fix on the GPU."""
# causes: idle, pageable_copy
import torch
from parts import DEVICE, Gpt, draw_tokens, language_loss, update, use_gpu
from turns import Turns

LAYERS, WIDTH, BATCH, LENGTH = 6, 512, 32, 513


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Gpt(LAYERS, WIDTH).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    weights = [weight.detach() for weight in model.parameters()]
    averages = {place: [w.clone().to(place) for w in weights] for place in ("cpu", DEVICE)}
    tokens = draw_tokens(BATCH, LENGTH)
    while turns.step():
        update(optimizer, language_loss(model, tokens))
        if turns.planted:
            for average, weight in zip(averages["cpu"], weights, strict=True):
                average.lerp_(weight.cpu(), 0.01)
        else:
            torch._foreach_lerp_(averages[DEVICE], weights, 0.01)
