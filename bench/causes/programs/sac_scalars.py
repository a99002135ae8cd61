"""A soft actor-critic; the cause reads each layer's statistics for the log, the fix keeps them.

The fix reads them in each 50th step, all at once.
"""
# causes: synchronization
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, STATE, ACTIONS, WIDTH, LAYERS, CRITICS, PERIOD = 4096, 376, 17, 2048, 6, 4, 50


def make_network(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(inputs, WIDTH), nn.LayerNorm(WIDTH), nn.SiLU()]
    for _ in range(LAYERS - 1):
        layers += [nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.SiLU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, outputs)).to(DEVICE)


class Log:
    """Numbers of a step by name."""

    def __init__(self, turns: Turns) -> None:
        self.turns, self.steps = turns, 0
        self.numbers: dict[str, float] = {}
        self.kept: dict[str, torch.Tensor] = {}

    def add(self, name: str, value: torch.Tensor) -> None:
        if self.turns.planted:
            self.numbers[name] = value.item()
        else:
            self.kept[name] = value

    def end_step(self) -> None:
        self.steps += 1
        if self.steps % PERIOD == 0 and self.kept:
            values = torch.stack(list(self.kept.values())).tolist()
            self.numbers.update(zip(self.kept, values, strict=True))


def watch(network: nn.Sequential, name: str, log: Log) -> None:
    """Log how many units of each layer are at work."""

    def note(place: int) -> None:
        def hook(_: nn.Module, __: object, output: torch.Tensor) -> None:
            log.add(f"{name}/{place}", (output.detach() > 0).float().mean())

        network[place].register_forward_hook(hook)

    for place in range(2, len(network), 3):
        note(place)


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = PERIOD
    actor = make_network(STATE, 2 * ACTIONS)
    critics = [make_network(STATE + ACTIONS, 1) for _ in range(CRITICS)]
    log = Log(turns)
    for number, network in enumerate([actor, *critics]):
        watch(network, str(number), log)
    weights = [weight for critic in critics for weight in critic.parameters()]
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-4, fused=True)
    critic_optimizer = torch.optim.Adam(weights, lr=1e-4, fused=True)
    states = torch.randn(BATCH, STATE, device=DEVICE)
    actions = torch.rand(BATCH, ACTIONS, device=DEVICE)
    rewards = torch.randn(BATCH, 1, device=DEVICE)
    while turns.step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            pairs = torch.cat([states, actions], 1)
            values = [critic(pairs).float() for critic in critics]
            loss = sum((value - rewards).square().mean() for value in values)
        update(critic_optimizer, loss)
        log.add("critic", loss.detach())
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            mean, spread = actor(states).chunk(2, 1)
            chosen = torch.tanh(mean + spread.clamp(-5, 2).exp() * torch.randn_like(mean))
            value = torch.stack([critic(torch.cat([states, chosen], 1)) for critic in critics])
            loss = -value.amin(0).float().mean()
        update(actor_optimizer, loss)
        log.add("actor", loss.detach())
        log.end_step()
