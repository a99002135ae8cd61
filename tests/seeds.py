"""Seeds of the tests that draw their cases by chance: fixed ones in `check`, fresh ones at night.

.ci/nightly sets GPU_PROFILE_SEED to a fresh number and prints it. With the same number a test draws
the same cases again: `GPU_PROFILE_SEED=7 ./inv check -- tests/fuzz`. Such a test has the marker
`drawn`.
"""

import os
from collections.abc import Sequence

_FRESH = os.environ.get("GPU_PROFILE_SEED", "")


def list_seeds(fixed: Sequence[int], nightly: int) -> Sequence[int]:
    """Return the fixed seeds, or at night so many from the fresh one on."""
    return range(int(_FRESH), int(_FRESH) + nightly) if _FRESH else fixed


def choose_size(usual: int, nightly: int) -> int:
    """Return how many cases a test draws from each of its seeds."""
    return nightly if _FRESH else usual
