"""Books recommended by LightGCN, tested on what readers took later; the cause ranks the books of readers by NumPy.

It copies the scores of all books to the host. The fix ranks them on the GPU, and copies the best.
"""
# causes: idle, pageable_copy
import numpy as np
import torch
from parts import DEVICE, use_gpu
from turns import Turns

READERS, BOOKS, TAKEN, LATER, WIDTH, LAYERS, BATCH, BEST = 100_000, 40_000, 64, 10, 128, 4, 48, 20


def join(taken: torch.Tensor) -> torch.Tensor:
    """The normalized matrix of the graph of readers and books, in rows (CSR)."""
    readers = torch.arange(READERS, device=DEVICE).repeat_interleave(TAKEN)
    books = READERS + taken.flatten()
    places = torch.stack([torch.cat([readers, books]), torch.cat([books, readers])])
    nodes = READERS + BOOKS
    degrees = torch.bincount(places[0], minlength=nodes).clamp(min=1).float()
    values = degrees[places[0]].rsqrt() * degrees[places[1]].rsqrt()
    return torch.sparse_coo_tensor(places, values, (nodes, nodes)).coalesce().to_sparse_csr()


def propagate(graph: torch.Tensor, start: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The vectors of readers and of books, each the mean of those of all layers."""
    x, total = start, start
    for _ in range(LAYERS):
        x = graph @ x
        total = total + x
    readers, books = (total / (LAYERS + 1)).split([READERS, BOOKS])
    return readers, books


def rank_on_host(scores: torch.Tensor) -> np.ndarray:
    """The best books of each reader, the best first."""
    on_host = scores.cpu().numpy()
    best = np.argpartition(-on_host, BEST, axis=1)[:, :BEST]
    order = np.argsort(-np.take_along_axis(on_host, best, axis=1), axis=1)
    return np.take_along_axis(best, order, axis=1)


def rank_on_gpu(scores: torch.Tensor) -> np.ndarray:
    """As rank_on_host."""
    return scores.topk(BEST, dim=1).indices.cpu().numpy()


def measure(best: np.ndarray, later: np.ndarray) -> tuple[float, float]:
    """Recall and NDCG of the best books."""
    found = (best[:, :, None] == later[:, None]).any(2)
    gains = 1 / np.log2(np.arange(2, BEST + 2))
    return found.sum(1).mean() / LATER, (found * gains).sum(1).mean() / gains[:LATER].sum()


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    taken = torch.randint(BOOKS, (READERS, TAKEN), device=DEVICE)
    later = np.random.default_rng(0).integers(BOOKS, size=(READERS, LATER))
    graph = join(taken)
    start = 0.1 * torch.randn(READERS + BOOKS, WIDTH, device=DEVICE)
    batches, results = torch.randperm(READERS).split(BATCH), []
    while turns.step():
        batch = batches[len(results) % (READERS // BATCH)]
        readers, books = propagate(graph, start)
        chosen = batch.to(DEVICE)
        scores = readers[chosen] @ books.T
        scores.scatter_(1, taken[chosen], -torch.inf)
        best = rank_on_host(scores) if turns.planted else rank_on_gpu(scores)
        results.append(measure(best, later[batch.numpy()]))
