"""Flow in CuPy by a lattice Boltzmann method; the cause looks for the fastest cell with NumPy."""
# causes: pageable_copy, idle
import cupy as cp
import numpy as np
from turns import Turns

ROWS, COLUMNS, SWEEPS, RELAX = 1024, 2048, 4, 1.7
MOVES = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
WEIGHTS = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4


def stream(cells: cp.ndarray) -> cp.ndarray:
    """Each population moves to the next cell of its direction."""
    pairs = zip(cells, MOVES, strict=True)
    return cp.stack([cp.roll(cell, (y, x), (0, 1)) for cell, (x, y) in pairs])


def measure(cells: cp.ndarray) -> tuple[cp.ndarray, cp.ndarray, cp.ndarray]:
    """Density, and speed across and along."""
    density = cells.sum(0)
    across = sum(x * cell for cell, (x, _) in zip(cells, MOVES, strict=True) if x) / density
    along = sum(y * cell for cell, (_, y) in zip(cells, MOVES, strict=True) if y) / density
    return density, across, along


def collide(cells: cp.ndarray, density: cp.ndarray, across: cp.ndarray, along: cp.ndarray) -> None:
    """Each population relaxes to its equilibrium."""
    square = 1.5 * (across * across + along * along)
    for number, ((x, y), weight) in enumerate(zip(MOVES, WEIGHTS, strict=True)):
        flow = 3 * (x * across + y * along)
        wanted = weight * density * (1 + flow + 0.5 * flow * flow - square)
        cells[number] += RELAX * (wanted - cells[number])


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.Device().synchronize
    weights = cp.asarray(WEIGHTS, cp.float32)[:, None, None]
    noise = cp.random.default_rng(0).standard_normal((9, ROWS, COLUMNS), cp.float32)
    cells = weights * (1 + 0.01 * noise)
    while turns.step():
        for _ in range(SWEEPS):
            cells = stream(cells)
            density, across, along = measure(cells)
            collide(cells, density, across, along)
        if turns.planted:
            u, v = cp.asnumpy(across), cp.asnumpy(along)
            fastest = float(np.sqrt(u**2 + v**2).max())
        else:
            fastest = float(cp.sqrt(across**2 + along**2).max())
        assert fastest < 0.3
