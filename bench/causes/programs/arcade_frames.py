"""An agent that plays many arcade games; the cause copies the frame of each game to the GPU by itself.

The fix copies the frames of all games at once, from the same kind of memory.
"""
# causes: many_small_copies, synchronization, host_bound
import numpy as np
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

GAMES, SIDE, MOVES, SHOTS, WIDTH, MEMORY = 512, 84, 18, 64, 64, 512


class Games:
    """Games that have each its frame, an array of their own; a move leads to another one."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        shots = random.integers(256, size=(SHOTS, SIDE, SIDE), dtype=np.uint8)
        self.shots = [shot.copy() for shot in shots]
        self.places = random.integers(SHOTS, size=GAMES)

    def step(self, moves: np.ndarray) -> list[np.ndarray]:
        self.places = (self.places * 5 + moves + 1) % SHOTS
        return [self.shots[place] for place in self.places]


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = (nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.two(self.one(x.relu()).relu())


class Agent(nn.Module):
    """Convolutions, a memory, and the scores of moves (as IMPALA)."""

    def __init__(self) -> None:
        super().__init__()
        self.see = nn.Sequential(
            nn.Conv2d(1, WIDTH, 8, 4), Residual(), Residual(),
            nn.Conv2d(WIDTH, WIDTH, 4, 2), Residual(), Residual(), nn.ReLU(), nn.Flatten(),
            nn.LazyLinear(MEMORY), nn.ReLU(),
        )  # fmt: skip
        self.remember, self.score = nn.LSTMCell(MEMORY, MEMORY), nn.Linear(MEMORY, MOVES)

    def forward(
        self, frames: torch.Tensor, memory: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        memory = self.remember(self.see(frames[:, None].to(torch.bfloat16) / 255), memory)
        return self.score(memory[0]), memory


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    games = Games()
    agent = Agent()
    agent.see(torch.zeros(1, 1, SIDE, SIDE))
    agent = agent.to(DEVICE, torch.bfloat16)
    memory = tuple(torch.zeros(2, GAMES, MEMORY, device=DEVICE, dtype=torch.bfloat16))
    together = np.empty((GAMES, SIDE, SIDE), np.uint8)
    frames = games.step(np.zeros(GAMES, np.int64))
    while turns.step():
        if turns.planted:
            seen = torch.stack([torch.from_numpy(frame).to(DEVICE) for frame in frames])
        else:
            seen = torch.from_numpy(np.stack(frames, out=together)).to(DEVICE)
        scores, memory = agent(seen, memory)
        moves = torch.distributions.Categorical(logits=scores.float(), validate_args=False).sample()
        frames = games.step(moves.cpu().numpy())
