"""Accounts scored for fraud by their neighbours in a graph; the cause compares each score with a limit by itself.

The scores are on the GPU, so `if score > LIMIT` waits for it. The fix makes a list of them first.
"""
# causes: synchronization, tiny_kernels, host_bound
import torch
import torch.nn.functional as F
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

ACCOUNTS, FEATURES, HIDDEN = 300_000, 256, 512
BATCH, NEIGHBOURS = 640, 32
RELATIONS = ("transfer", "card", "device", "address", "phone", "merchant", "browser", "employer",
             "payee", "voucher", "login", "referral")  # fmt: skip
LIMIT = 0.5


class Relation(nn.Module):
    """Means over neighbours of neighbours by one kind of edge."""

    def __init__(self) -> None:
        super().__init__()
        self.far = nn.Linear(FEATURES, HIDDEN)
        self.near = nn.Linear(FEATURES + HIDDEN, HIDDEN)

    def forward(
        self, features: torch.Tensor, neighbours: torch.Tensor, accounts: torch.Tensor
    ) -> torch.Tensor:
        near = neighbours[accounts]
        far = neighbours[near]
        messages = F.relu(self.far(features[far])).mean(2)
        joined = torch.cat([features[near], messages], dim=-1)
        return F.relu(self.near(joined)).mean(1)


class FraudModel(nn.Module):
    """Accounts to probabilities of fraud."""

    def __init__(self) -> None:
        super().__init__()
        self.relations = nn.ModuleList([Relation() for _ in RELATIONS])
        self.classify = nn.Sequential(
            nn.Linear(len(RELATIONS) * HIDDEN + FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1)
        )

    def forward(
        self, features: torch.Tensor, edges: list[torch.Tensor], accounts: torch.Tensor
    ) -> torch.Tensor:
        seen = [
            relation(features, neighbours, accounts)
            for relation, neighbours in zip(self.relations, edges, strict=True)
        ]
        logits = self.classify(torch.cat([*seen, features[accounts]], dim=-1))
        return torch.sigmoid(logits.squeeze(-1).float())


def find_alerts(
    scores: torch.Tensor | list[float], accounts: list[int]
) -> list[tuple[int, float]]:
    alerts = []
    for account, score in zip(accounts, scores, strict=True):
        if score > LIMIT:
            alerts.append((account, float(score)))
    return alerts


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = FraudModel().to(DEVICE, torch.bfloat16).eval()
    features = torch.randn(ACCOUNTS, FEATURES, device=DEVICE, dtype=torch.bfloat16)
    edges = [torch.randint(ACCOUNTS, (ACCOUNTS, NEIGHBOURS), device=DEVICE) for _ in RELATIONS]
    queue = torch.randint(ACCOUNTS, (32, BATCH))
    step, alerts = 0, 0
    while turns.step():
        batch = queue[step % len(queue)]
        step += 1
        scores = model(features, edges, batch.to(DEVICE))
        found = find_alerts(scores if turns.planted else scores.tolist(), batch.tolist())
        alerts += len(found)
