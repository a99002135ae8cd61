"""A Decision Transformer that learns from recorded episodes, with Accelerate; the cause is fp32 without TF32.

The fix is `torch.set_float32_matmul_precision("high")`.
"""
# causes: no_tensor_cores
import torch
from accelerate import Accelerator
from parts import DEVICE, Block, use_gpu
from torch import nn
from turns import Turns

BATCH, TIMES, STATE, ACTION, WIDTH, LAYERS, HEADS, LONGEST = 120, 40, 39, 8, 512, 10, 8, 1000
EPISODES = 512


class DecisionTransformer(nn.Module):
    """Returns to go, states and actions by turns; after each state comes the action."""

    def __init__(self) -> None:
        super().__init__()
        self.returns, self.states = nn.Linear(1, WIDTH), nn.Linear(STATE, WIDTH)
        self.actions, self.times = nn.Linear(ACTION, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH, HEADS) for _ in range(LAYERS))
        self.first, self.last = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.head = nn.Sequential(nn.Linear(WIDTH, ACTION), nn.Tanh())

    def forward(
        self, returns: torch.Tensor, states: torch.Tensor, actions: torch.Tensor, times: torch.Tensor
    ) -> torch.Tensor:
        when = self.times(times)
        parts = [self.returns(returns), self.states(states), self.actions(actions)]
        x = self.first(torch.stack([part + when for part in parts], 2).flatten(1, 2))
        for block in self.blocks:
            x = block(x)
        return self.head(self.last(x).unflatten(1, (TIMES, 3))[:, :, 1])


class Episodes:
    """Episodes on the GPU, from which windows are drawn."""

    def __init__(self) -> None:
        self.returns = torch.rand(EPISODES, LONGEST, 1, device=DEVICE)
        self.states = torch.randn(EPISODES, LONGEST, STATE, device=DEVICE)
        self.actions = torch.rand(EPISODES, LONGEST, ACTION, device=DEVICE) * 2 - 1

    def draw(self) -> tuple[torch.Tensor, ...]:
        episodes = torch.randint(EPISODES, (BATCH, 1), device=DEVICE)
        first = torch.randint(LONGEST - TIMES, (BATCH, 1), device=DEVICE)
        times = first + torch.arange(TIMES, device=DEVICE)
        found = (part[episodes, times] for part in (self.returns, self.states, self.actions))
        return *found, times


def run(turns: Turns) -> None:
    use_gpu(turns)
    accelerator = Accelerator(mixed_precision="no")
    model = DecisionTransformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-4)
    model, optimizer = accelerator.prepare(model, optimizer)
    episodes = Episodes()
    while turns.step():
        torch.set_float32_matmul_precision("highest" if turns.planted else "high")
        returns, states, actions, times = episodes.draw()
        guessed = model(returns, states, actions, times)
        loss = nn.functional.mse_loss(guessed, actions)
        optimizer.zero_grad()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
