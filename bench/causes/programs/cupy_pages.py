"""Ranks of pages seen from a topic (PageRank) in CuPy; the cause asks after each round how far the ranks have moved.

The fix asks after each tenth round.
"""
# causes: synchronization
import cupy as cp
from cupyx.scipy import sparse
from turns import Turns

PAGES, LINKS, GAP, TOPICS, DAMPING, TOLERANCE, MOST, SELDOM = 4_000_000, 16, 600, 8, 0.85, 1e-6, 60, 10


def link_pages() -> sparse.csr_matrix:
    """The share of a page's rank that another one gets: links go to pages that are near."""
    gaps = cp.random.randint(1, GAP, size=(PAGES, LINKS), dtype=cp.int32)
    first = cp.arange(PAGES, dtype=cp.int32) - GAP * LINKS // 2
    first = cp.clip(first, 0, PAGES - GAP * LINKS - 1)
    sources = (first[:, None] + cp.cumsum(gaps, axis=1)).astype(cp.int32).ravel()
    counts = cp.bincount(sources, minlength=PAGES).astype(cp.float32)
    shares = 1 / counts[sources]
    starts = LINKS * cp.arange(PAGES + 1, dtype=cp.int32)
    return sparse.csr_matrix((shares, sources, starts), shape=(PAGES, PAGES))


def choose_topic(number: int) -> cp.ndarray:
    """Where a surfer of a topic begins: some of the pages of a range."""
    start = cp.zeros(PAGES, cp.float32)
    first = number * (PAGES // TOPICS)
    start[first : first + 20_000 : 40] = 1
    return start / start.sum()


def rank(links: sparse.csr_matrix, start: cp.ndarray, period: int) -> cp.ndarray:
    """The ranks of pages, after rounds that end when they no longer move."""
    ranks = start
    for number in range(1, MOST + 1):
        new = DAMPING * links.dot(ranks)
        new += (1 - new.sum()) * start
        if number % period == 0:
            moved = float(cp.abs(new - ranks).sum())
            if moved < TOLERANCE:
                return new
        ranks = new
    return ranks


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    cp.random.seed(0)
    links = link_pages()
    topics = [choose_topic(number) for number in range(TOPICS)]
    best, served = [], 0
    while turns.step():
        ranks = rank(links, topics[served % TOPICS], 1 if turns.planted else SELDOM)
        served += 1
        best.append(int(ranks.argmax()))
