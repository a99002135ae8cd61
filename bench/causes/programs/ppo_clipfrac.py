"""PPO on images of a game, its update only; the cause reads five statistics of each minibatch by `.item()`.

The fix keeps them on the GPU and reads their means once an update.
"""
# causes: synchronization
import torch
import torch.nn as nn
from parts import use_gpu
from torch.distributions import Categorical
from turns import Turns

NUM_ENVS, NUM_STEPS, ACTIONS = 12, 128, 15
EPOCHS, MINIBATCH = 2, 384
CLIP, VF_COEF, ENT_COEF = 0.2, 0.5, 0.01
NAMES = ("pg_loss", "v_loss", "entropy", "approx_kl", "clipfrac")


class ResidualBlock(nn.Module):
    """Two convolutions beside a skip."""

    def __init__(self, channels):
        super().__init__()
        self.conv0 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        y = self.conv0(torch.relu(x))
        return x + self.conv1(torch.relu(y))


class Agent(nn.Module):
    """The convolutional network of IMPALA, with an actor and a critic."""

    def __init__(self):
        super().__init__()
        layers, before = [], 3
        for channels in (16, 32, 32):
            layers += [
                nn.Conv2d(before, channels, 3, padding=1),
                nn.MaxPool2d(3, stride=2, padding=1),
                ResidualBlock(channels),
                ResidualBlock(channels),
            ]
            before = channels
        self.network = nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), nn.Linear(2048, 256), nn.ReLU())
        self.actor = nn.Linear(256, ACTIONS)
        self.critic = nn.Linear(256, 1)

    def forward(self, obs, action):
        hidden = self.network(obs.float() / 255.0)
        probs = Categorical(logits=self.actor(hidden), validate_args=False)
        return probs.log_prob(action), probs.entropy(), self.critic(hidden).squeeze(1)


def make_rollout():
    n = NUM_ENVS * NUM_STEPS
    return {
        "obs": torch.randint(256, (n, 3, 64, 64), dtype=torch.uint8, device="cuda"),
        "action": torch.randint(ACTIONS, (n,), device="cuda"),
        "logprob": torch.full((n,), -2.7, device="cuda"),
        "advantage": torch.randn(n, device="cuda"),
        "ret": torch.randn(n, device="cuda"),
    }


def losses_of(agent, mb):
    newlogprob, entropy, value = agent(mb["obs"], mb["action"])
    logratio = newlogprob - mb["logprob"]
    ratio = logratio.exp()
    with torch.no_grad():
        approx_kl = ((ratio - 1) - logratio).mean()
        clipfrac = ((ratio - 1.0).abs() > CLIP).float().mean()
    adv = mb["advantage"]
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    pg_loss = torch.max(-adv * ratio, -adv * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
    v_loss = 0.5 * ((value - mb["ret"]) ** 2).mean()
    return pg_loss, v_loss, entropy.mean(), approx_kl, clipfrac


def run(turns: Turns) -> None:
    use_gpu(turns)
    agent = Agent().cuda()
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    rollout = make_rollout()
    n = NUM_ENVS * NUM_STEPS

    while turns.step():
        stats = {name: [] for name in NAMES}
        for _ in range(EPOCHS):
            order = torch.randperm(n, device="cuda")
            for start in range(0, n, MINIBATCH):
                index = order[start : start + MINIBATCH]
                mb = {key: column[index] for key, column in rollout.items()}
                values = losses_of(agent, mb)
                for name, value in zip(NAMES, values):
                    stats[name].append(value.item() if turns.planted else value.detach())
                pg_loss, v_loss, entropy = values[:3]
                loss = pg_loss - ENT_COEF * entropy + VF_COEF * v_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        if turns.planted:
            means = {name: sum(values) / len(values) for name, values in stats.items()}
        else:
            stacked = torch.stack([torch.stack(values).mean() for values in stats.values()])
            means = dict(zip(NAMES, stacked.tolist()))
        if not means["approx_kl"] < 1e9:
            print("diverged", means)
