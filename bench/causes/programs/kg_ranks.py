"""Ranks of a knowledge graph's facts; the cause masks the known answers of each question by itself.

The fix masks those of all questions at once, by indices that were made with the questions.
"""
# causes: synchronization, host_bound
import random
from dataclasses import dataclass

import torch
from parts import DEVICE, use_gpu
from turns import Turns

ENTITIES, RELATIONS, WIDTH, QUESTIONS, KNOWN, BATCHES = 150_000, 400, 400, 256, 60, 12


@dataclass(frozen=True)
class Questions:
    """Heads, relations and true tails; `known`: other tails that are facts too."""

    heads: torch.Tensor
    relations: torch.Tensor
    tails: torch.Tensor
    known: dict[tuple[int, int], list[int]]
    rows: torch.Tensor
    columns: torch.Tensor


def draw_questions() -> Questions:
    heads, tails = torch.randperm(ENTITIES)[: 2 * QUESTIONS].view(2, -1)
    relations = torch.randint(RELATIONS, (QUESTIONS,))
    known, rows, columns = {}, [], []
    for i, (head, relation) in enumerate(zip(heads.tolist(), relations.tolist(), strict=True)):
        others = random.sample(range(ENTITIES), random.randint(1, KNOWN))
        known[head, relation] = others
        rows += [i] * len(others)
        columns += others
    tensors = [heads, relations, tails, torch.tensor(rows), torch.tensor(columns)]
    heads, relations, tails, all_rows, all_columns = (one.to(DEVICE) for one in tensors)
    return Questions(heads, relations, tails, known, all_rows, all_columns)


class ComplEx:
    """Scores of all entities as the tail of a fact, by products of complex vectors."""

    def __init__(self) -> None:
        self.entities = torch.randn(2, ENTITIES, WIDTH, device=DEVICE, dtype=torch.bfloat16)
        self.relations = torch.randn(2, RELATIONS, WIDTH, device=DEVICE, dtype=torch.bfloat16)

    def score(self, q: Questions) -> torch.Tensor:
        real, imaginary = self.entities[:, q.heads]
        turn, spin = self.relations[:, q.relations]
        first, second = real * turn - imaginary * spin, real * spin + imaginary * turn
        return (first @ self.entities[0].T + second @ self.entities[1].T).float()


def mask_one_by_one(scores: torch.Tensor, q: Questions) -> None:
    """Leave the known answers out of the ranks."""
    facts = zip(q.heads.tolist(), q.relations.tolist(), strict=True)
    for row, fact in enumerate(facts):
        scores[row, torch.tensor(q.known[fact], device=scores.device)] = -torch.inf


def mask_all(scores: torch.Tensor, q: Questions) -> None:
    """As mask_one_by_one."""
    scores[q.rows, q.columns] = -torch.inf


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    random.seed(0)
    model, batches = ComplEx(), [draw_questions() for _ in range(BATCHES)]
    steps, total = 0, torch.zeros((), device=DEVICE)
    while turns.step():
        q, steps = batches[steps % BATCHES], steps + 1
        scores = model.score(q)
        true = scores.gather(1, q.tails[:, None])
        (mask_one_by_one if turns.planted else mask_all)(scores, q)
        ranks = 1 + (scores > true).sum(1)
        total += (1 / ranks).mean()
