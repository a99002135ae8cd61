"""Reinforcement learning; the cause reads the actions one by one."""
# causes: synchronization
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    policy = nn.Sequential(
        nn.Linear(128, 2048), nn.Tanh(), nn.Linear(2048, 2048), nn.Tanh(), nn.Linear(2048, 16)
    ).to(DEVICE)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4, fused=True)
    states = torch.rand(256, 128, device=DEVICE)
    batch = torch.rand(65536, 128, device=DEVICE)
    while turns.step():
        with torch.no_grad():
            actions = policy(states).argmax(-1)
        moves = [int(a) for a in actions] if turns.planted else actions.tolist()
        assert len(moves) == 256
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = policy(batch).square().mean()
        update(optimizer, loss)
