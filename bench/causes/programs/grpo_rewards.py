"""A Qwen2 (transformers) that learns to answer by GRPO, its answers drawn elsewhere; the cause scores them in Python.

Each answer is compared with the right one and searched for its form. The fix lets eight processes
score the next batch beside the step.
"""
# causes: idle
import re
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from difflib import SequenceMatcher
from multiprocessing import get_context
from random import Random

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from transformers import Qwen2Config, Qwen2ForCausalLM
from turns import Turns

PROMPTS, GROUP, LENGTH, WORDS, LAYERS, WIDTH, BATCHES, PROCESSES = 8, 8, 256, 4096, 8, 640, 6, 8
FORM = re.compile(r"<think>(.*?)</think>.*?<answer>(.*?)</answer>", re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

Pair = tuple[list[int], list[int]]


def list_pieces() -> list[str]:
    """The text of each token."""
    random = Random(0)
    pieces = ["<think>", "</think>", "<answer>", "</answer>", "\n"]
    while len(pieces) < WORDS:
        letters = random.choices("etaoinshrdlu0123456789", k=random.randint(1, 6))
        pieces.append(" " * random.randint(0, 1) + "".join(letters))
    return pieces


PIECES = list_pieces()


def score(answer: list[int], right: list[int]) -> float:
    """How much of the right answer is there, whether its form is right, and its numbers."""
    said, wanted = ("".join(PIECES[word] for word in words) for words in (answer, right))
    alike = SequenceMatcher(None, said.split(), wanted.split(), autojunk=False).ratio()
    form = FORM.search(said)
    numbers = set(NUMBER.findall(said)) & set(NUMBER.findall(wanted))
    return alike + 0.2 * (form is not None) + 0.01 * len(numbers)


def score_all(pairs: list[Pair]) -> list[float]:
    return [score(*pair) for pair in pairs]


def draw_answers() -> list[list[Pair]]:
    """Batches of answers that have parts of the right ones."""
    random = Random(1)
    batches = []
    for _ in range(BATCHES):
        pairs = []
        for _ in range(PROMPTS):
            right = random.choices(range(WORDS // 8), k=LENGTH)
            for _ in range(GROUP):
                kept = [word if random.random() < 0.5 else random.randrange(WORDS) for word in right]
                pairs.append((kept, right))
        batches.append(pairs)
    return batches


class Rewards:
    """Scores batches here, or ahead in other processes."""

    def __init__(self, pool: ProcessPoolExecutor, batches: list[list[Pair]]) -> None:
        self.pool, self.batches = pool, batches
        self.ahead: dict[int, list[Future[list[float]]]] = {}

    def score_here(self, step: int) -> list[float]:
        return score_all(self.batches[step % BATCHES])

    def take(self, step: int) -> list[float]:
        """The rewards of this step; the other processes begin with the next step's."""
        futures = self.ahead.get(step) or self.begin(step)
        self.ahead = {step + 1: self.begin(step + 1)}
        return [reward for future in futures for reward in future.result()]

    def begin(self, step: int) -> list[Future[list[float]]]:
        return [self.pool.submit(score_all, part) for part in self.split(step)]

    def split(self, step: int) -> Iterator[list[Pair]]:
        pairs = self.batches[step % BATCHES]
        for first in range(0, len(pairs), len(pairs) // PROCESSES):
            yield pairs[first : first + len(pairs) // PROCESSES]


def train(turns: Turns, rewards: Rewards) -> None:
    config = Qwen2Config(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=10, num_key_value_heads=10, max_position_embeddings=LENGTH, use_cache=False,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    answers = torch.tensor([[answer for answer, _ in pairs] for pairs in rewards.batches]).pin_memory()
    step = 0
    while turns.step():
        words = answers[step % BATCHES].to(DEVICE, non_blocking=True)
        scores = rewards.score_here(step) if turns.planted else rewards.take(step)
        step += 1
        grouped = torch.tensor(scores).view(PROMPTS, GROUP)
        spread = grouped.std(1, keepdim=True) + 1e-4
        advantages = ((grouped - grouped.mean(1, keepdim=True)) / spread).flatten().pin_memory()
        advantages = advantages.to(DEVICE, non_blocking=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            logits = model(input_ids=words).logits[:, :-1]
        losses = nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), words[:, 1:].flatten(), reduction="none"
        )
        update(optimizer, (losses.view(len(words), -1).mean(1) * advantages).mean())


def run(turns: Turns) -> None:
    # The processes start before there is anything of CUDA in this one.
    with ProcessPoolExecutor(PROCESSES, get_context("fork")) as pool:
        rewards = Rewards(pool, draw_answers())
        rewards.take(0)
        use_gpu(turns)
        train(turns, rewards)
