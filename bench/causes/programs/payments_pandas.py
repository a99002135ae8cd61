"""Fraud in card payments by a transformer over columns; the cause prepares each batch with pandas in the training loop.

The fix prepares the whole table once and keeps it on the GPU.
"""
# causes: idle
import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
from parts import use_gpu
from turns import Turns

ROWS = 300_000
BATCH = 3072
NUMERIC = [f"amount_{i}" for i in range(20)]
CATEGORICAL = {"merchant": 5000, "terminal": 3000, "city": 800, "issuer": 300, "mcc": 200, "country": 90,
               "currency": 40, "channel": 8, "weekday": 7, "hour": 24}  # fmt: skip


def make_table():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.lognormal(3, 1, (ROWS, len(NUMERIC))), columns=NUMERIC)
    table = table.mask(rng.random(table.shape) < 0.05)
    for name, count in CATEGORICAL.items():
        table[name] = 10_000 + 7 * rng.integers(count, size=ROWS)
    table["fraud"] = (rng.random(ROWS) < 0.02).astype("float32")
    return table


class Preprocessor:
    """Fills, scales and numbers the columns of a table."""

    def __init__(self, table):
        self.mean, self.std = table[NUMERIC].mean(), table[NUMERIC].std()
        self.vocabulary = {
            name: {code: i + 1 for i, code in enumerate(sorted(table[name].unique()))} for name in CATEGORICAL
        }

    def transform(self, frame):
        numeric = frame[NUMERIC].fillna(self.mean)
        numeric = ((numeric - self.mean) / self.std).clip(-5, 5)
        codes = pd.DataFrame({name: frame[name].map(self.vocabulary[name]) for name in CATEGORICAL})
        return (
            torch.from_numpy(numeric.to_numpy(dtype="float32", copy=True)),
            torch.from_numpy(codes.fillna(0).to_numpy(dtype="int64", copy=True)),
            torch.from_numpy(frame["fraud"].to_numpy(copy=True)),
        )


class FeatureTransformer(nn.Module):
    """A token of each column, layers of attention among them, a score of the first."""

    def __init__(self, dim=192, layers=4):
        super().__init__()
        self.scale = nn.Parameter(0.02 * torch.randn(len(NUMERIC), dim))
        self.shift = nn.Parameter(torch.zeros(len(NUMERIC), dim))
        self.tables = nn.ModuleList([nn.Embedding(count + 1, dim) for count in CATEGORICAL.values()])
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        layer = nn.TransformerEncoderLayer(
            dim, nhead=8, dim_feedforward=4 * dim, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 1)

    def forward(self, numeric, codes):
        tokens = [self.cls.expand(len(numeric), -1, -1), numeric[..., None] * self.scale + self.shift]
        tokens += [table(column)[:, None] for table, column in zip(self.tables, codes.unbind(1))]
        return self.head(self.encoder(torch.cat(tokens, dim=1))[:, 0]).squeeze(1)


def run(turns: Turns) -> None:
    use_gpu(turns)
    table = make_table()
    preprocessor = Preprocessor(table)
    whole = [column.cuda() for column in preprocessor.transform(table)]
    model = FeatureTransformer().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    step = 0
    while turns.step():
        step += 1
        if turns.planted:
            batch = preprocessor.transform(table.sample(BATCH, random_state=step))
            numeric, codes, fraud = [column.cuda() for column in batch]
        else:
            rows = torch.randint(ROWS, (BATCH,), device="cuda")
            numeric, codes, fraud = [column[rows] for column in whole]
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(numeric, codes)
        loss = F.binary_cross_entropy_with_logits(logits.float(), fraud)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
