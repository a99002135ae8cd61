"""The array types that every analysis uses."""

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
Flags = NDArray[np.bool_]
Places = NDArray[np.int32]  # indexes into a table
