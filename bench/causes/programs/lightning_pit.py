"""Voices told apart under Lightning (Conv-TasNet of torchaudio); the cause scores order by order.

For each sample and each order of its speakers it computes the loss of each of them. The fix
computes the loss of each pair of a voice and a speaker once, for all samples together.
"""
# causes: tiny_kernels, host_bound
import itertools

import lightning_or_pytorch as lightning
import torch
from parts import use_gpu
from torch.utils.data import DataLoader, Dataset
from torchaudio.models import ConvTasNet
from turns import Turns

BATCH, SPEAKERS, FRAMES = 8, 3, 16_000
ORDERS = tuple(itertools.permutations(range(SPEAKERS)))


class Voices(Dataset[torch.Tensor]):
    """The same voices again and again, ready on the CPU."""

    def __init__(self) -> None:
        self.voices = torch.randn(SPEAKERS, FRAMES)

    def __len__(self) -> int:
        return 100_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.voices


def find_noise(guess: torch.Tensor, voice: torch.Tensor) -> torch.Tensor:
    """How far the guess is from the voice, whatever its loudness, in dB (SI-SNR, negated)."""
    guess = guess - guess.mean(-1, keepdim=True)
    voice = voice - voice.mean(-1, keepdim=True)
    energy = voice.square().sum(-1, keepdim=True) + 1e-8
    wanted = (guess * voice).sum(-1, keepdim=True) * voice / energy
    noise = (guess - wanted).square().sum(-1) + 1e-8
    return -10 * torch.log10(wanted.square().sum(-1) / noise + 1e-8)


def score_each_order(guesses: torch.Tensor, voices: torch.Tensor) -> torch.Tensor:
    """The mean over samples of the loss by the best order of speakers."""
    losses = []
    for mine, true in zip(guesses, voices, strict=True):
        orders = [
            torch.stack([find_noise(mine[i], true[j]) for i, j in enumerate(order)]).mean()
            for order in ORDERS
        ]
        losses.append(torch.stack(orders).min())
    return torch.stack(losses).mean()


def score_pairs(guesses: torch.Tensor, voices: torch.Tensor) -> torch.Tensor:
    """As score_each_order."""
    pairs = find_noise(guesses[:, :, None], voices[:, None])
    places = torch.arange(SPEAKERS, device=pairs.device)
    orders = torch.stack([pairs[:, places, list(order)].mean(-1) for order in ORDERS], 1)
    return orders.min(1).values.mean()


class Separator(lightning.LightningModule):
    """Voices of a mixture."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns, self.model = turns, ConvTasNet(num_sources=SPEAKERS)
        turns.step()

    def training_step(self, voices: torch.Tensor, _: int) -> torch.Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guesses = self.model(voices.sum(1, keepdim=True))
        score = score_each_order if self.turns.planted else score_pairs
        return score(guesses.float(), voices)

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    loader = DataLoader(Voices(), BATCH, num_workers=4, pin_memory=True)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Separator(turns), loader)
