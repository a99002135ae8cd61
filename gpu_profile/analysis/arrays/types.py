"""The array types that every analysis uses."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
Flags = NDArray[np.bool_]
Places = NDArray[np.int32]  # indexes into a table
Threads = NDArray[np.signedinteger[Any]]  # indexes into a list of threads, in 1 byte where they fit
