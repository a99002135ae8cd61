"""A variational autoencoder that recommends films (Mult-VAE); the cause computes its products in fp32.

The fix allows TF32.
"""
# causes: no_tensor_cores
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

USERS, FILMS, WIDTH, CODE, WATCHED = 2048, 20_480, 1024, 256, 64


class MultVae(nn.Module):
    """The films of users to the chances of all films, by a code that is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(FILMS, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 2 * CODE))
        self.decoder = nn.Sequential(nn.Linear(CODE, WIDTH), nn.Tanh(), nn.Linear(WIDTH, FILMS))

    def forward(self, films: torch.Tensor) -> torch.Tensor:
        known = nn.functional.dropout(nn.functional.normalize(films), 0.5)
        mean, log_variance = self.encoder(known).chunk(2, -1)
        code = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        missed = -(self.decoder(code).log_softmax(-1) * films).sum(-1)
        extent = (mean.square() + log_variance.exp() - log_variance - 1).sum(-1) / 2
        return (missed + 0.2 * extent).mean()


def run(turns: Turns) -> None:
    use_gpu(turns)
    model, steps = MultVae().to(DEVICE), 0
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    batches = []
    for _ in range(4):
        films = torch.randint(FILMS, (USERS, WATCHED), device=DEVICE)
        batches.append(torch.zeros(USERS, FILMS, device=DEVICE).scatter_(1, films, 1))
    while turns.step():
        torch.backends.cuda.matmul.allow_tf32 = not turns.planted
        update(optimizer, model(batches[steps % len(batches)]))
        steps += 1
