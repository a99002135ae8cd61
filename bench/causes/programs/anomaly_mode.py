"""A GPT; the cause is autograd's search for anomalies, left on after a search for a NaN."""
# causes: synchronization, host_bound
import torch
from parts import DEVICE, Gpt, draw_tokens, language_loss, update, use_gpu
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Gpt(8, 1024, 16).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = draw_tokens(16, 513)
    while turns.step():
        with torch.autograd.set_detect_anomaly(turns.planted):
            update(optimizer, language_loss(model, tokens))
