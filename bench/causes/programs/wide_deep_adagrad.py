"""Wide & Deep on 90 categorical columns; the cause is Adagrad with `foreach=False`, the fix its default."""
# causes: tiny_kernels, host_bound
import torch
import torch.nn as nn
from parts import use_gpu
from turns import Turns

BATCH_SIZE = 8192
NUM_DENSE = 32
EMBED_DIM = 16
# Many small vocabularies, and a few that are not.
CARDINALITIES = [50, 200, 1_000, 24, 7, 400, 12, 3_000, 120] * 9 + [20_000] * 6 + [100_000] * 3


class WideAndDeep(nn.Module):
    """A linear model of the columns and an MLP over their embeddings."""

    def __init__(self, cardinalities, embed_dim, num_dense, hidden=(1024, 512, 256)):
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(c, embed_dim) for c in cardinalities])
        self.wide = nn.Linear(len(cardinalities) * embed_dim + num_dense, 1)
        layers = []
        width = len(cardinalities) * embed_dim + num_dense
        for h in hidden:
            layers += [nn.Linear(width, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Dropout(0.1)]
            width = h
        self.deep = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, dense, sparse):
        columns = sparse.unbind(1)
        embedded = [emb(column) for emb, column in zip(self.embeddings, columns)]
        x = torch.cat([*embedded, dense], dim=1)
        return (self.wide(x) + self.deep(x)).squeeze(1)


def make_batches(count):
    """Batches as a loader on the GPU would give them."""
    batches = []
    for _ in range(count):
        dense = torch.randn(BATCH_SIZE, NUM_DENSE, device="cuda")
        sparse = torch.stack(
            [torch.randint(c, (BATCH_SIZE,), device="cuda") for c in CARDINALITIES], dim=1
        )
        clicks = (torch.rand(BATCH_SIZE, device="cuda") < 0.2).float()
        batches.append((dense, sparse, clicks))
    return batches


def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.backends.cuda.matmul.allow_tf32 = True
    model = WideAndDeep(CARDINALITIES, EMBED_DIM, NUM_DENSE).cuda()
    criterion = nn.BCEWithLogitsLoss()
    single = torch.optim.Adagrad(model.parameters(), lr=0.01, foreach=False)
    default = torch.optim.Adagrad(model.parameters(), lr=0.01)
    batches = make_batches(8)

    i = 0
    while turns.step():
        dense, sparse, clicks = batches[i % len(batches)]
        i += 1
        optimizer = single if turns.planted else default
        optimizer.zero_grad()
        loss = criterion(model(dense, sparse), clicks)
        loss.backward()
        optimizer.step()
