"""Click prediction from the items that a user has seen; the cause is a dataset of lists of Python numbers.

The default collate function makes a tensor of each position of these lists. The fix has tensors.
"""
# causes: idle
import torch
from parts import DEVICE, repeat, update, use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

USERS, ITEMS, SEEN, BATCH, WIDTH, WORKERS = 20_000, 50_000, 200, 1024, 256, 2

Sample = dict[str, "list[int] | torch.Tensor | int"]


class Clicks(Dataset[Sample]):
    """What a user has seen, the item that is shown, and whether they click on it."""

    def __init__(self, *, as_tensors: bool) -> None:
        seen = torch.randint(1, ITEMS, (USERS, SEEN))
        self.seen = list(seen) if as_tensors else seen.tolist()
        self.shown = torch.randint(1, ITEMS, (USERS,)).tolist()

    def __len__(self) -> int:
        return USERS

    def __getitem__(self, user: int) -> Sample:
        return {"seen": self.seen[user], "shown": self.shown[user], "clicks": user % 2}


class Interest(nn.Module):
    """What was seen, weighted by the item that is shown (DIN)."""

    def __init__(self) -> None:
        super().__init__()
        self.items = nn.Embedding(ITEMS, WIDTH)
        self.attend = nn.Sequential(nn.Linear(3 * WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 1))
        self.judge = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 1))

    def forward(self, seen: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
        past, now = self.items(seen), self.items(shown)[:, None]
        pairs = torch.cat([past, now.expand_as(past), past * now], -1)
        taste = (self.attend(pairs).softmax(1) * past).sum(1)
        return self.judge(torch.cat([taste, now[:, 0]], -1)).squeeze(1)


def run(turns: Turns) -> None:
    use_gpu(turns)
    loaders = {
        planted: repeat(
            DataLoader(
                Clicks(as_tensors=not planted), BATCH, shuffle=True, num_workers=WORKERS,
                pin_memory=True, drop_last=True, persistent_workers=True,
            )  # fmt: skip
        )
        for planted in (True, False)
    }
    model = Interest().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    while turns.step():
        batch = next(loaders[turns.planted])
        seen = batch["seen"]
        if isinstance(seen, list):
            seen = torch.stack(seen, 1)
        seen, shown, clicks = (
            each.to(DEVICE, non_blocking=True) for each in (seen, batch["shown"], batch["clicks"])
        )
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guesses = model(seen, shown)
        loss = nn.functional.binary_cross_entropy_with_logits(guesses.float(), clicks.float())
        update(optimizer, loss)
