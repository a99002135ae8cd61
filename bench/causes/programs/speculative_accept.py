"""Speculative decoding; the cause reads the probabilities of each guessed word to accept or refuse it.

The fix compares them on the GPU, and reads how many words each text has gained. Both networks
score a window of the last words anew, without caches.
"""
# causes: synchronization, idle
import torch
from parts import DEVICE, Gpt, use_gpu
from turns import Turns

TEXTS, GUESSES, WINDOW, WORDS = 16, 5, 256, 8192


def guess(small: Gpt, texts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The texts with GUESSES more words of the small network, and their probabilities there."""
    probabilities = []
    for _ in range(GUESSES):
        shares = small(texts[:, -WINDOW:])[:, -1].float().softmax(-1)
        word = torch.multinomial(shares, 1)
        probabilities.append(shares.gather(1, word))
        texts = torch.cat([texts, word], 1)
    return texts, torch.cat(probabilities, 1)


def count_by_host(true: torch.Tensor, guessed: torch.Tensor, draws: torch.Tensor) -> list[int]:
    """How many words of each text are accepted before the first that is refused."""
    counts = []
    for text in range(TEXTS):
        count = 0
        for place in range(GUESSES):
            ratio = true[text, place].item() / guessed[text, place].item()
            if draws[text, place].item() > min(1.0, ratio):
                break
            count += 1
        counts.append(count)
    return counts


def count_by_gpu(true: torch.Tensor, guessed: torch.Tensor, draws: torch.Tensor) -> list[int]:
    """As count_by_host."""
    is_accepted = draws <= (true / guessed).clamp(max=1)
    return is_accepted.long().cumprod(1).sum(1).tolist()


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    large = Gpt(12, 1024, 16, WORDS).to(DEVICE).bfloat16()
    small = Gpt(2, 512, 8, WORDS).to(DEVICE).bfloat16()
    texts = torch.randint(WORDS, (TEXTS, WINDOW), device=DEVICE)
    written = 0
    while turns.step():
        longer, guessed = guess(small, texts)
        shares = large(longer)[:, -GUESSES - 1 :].float().softmax(-1)
        true = shares[:, :-1].gather(2, longer[:, -GUESSES:, None]).squeeze(2)
        draws = torch.rand(TEXTS, GUESSES, device=DEVICE)
        count = count_by_host if turns.planted else count_by_gpu
        counts = count(true, guessed, draws)
        written += sum(counts)
        # All texts keep the length of the one that gained least, and get a word of the large network.
        least = min(counts)
        word = torch.multinomial(shares[:, least], 1)
        texts = torch.cat([longer[:, : WINDOW + least], word], 1)[:, -WINDOW:]
