"""Classes of CUDA graphs that were traced as a whole: only their time on the GPU tells them apart.

The number of an executable graph tells less: XLA instantiates the same graph again when it has
compiled another function.
"""

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray

APART = 1.5
"""A graph that takes so many times as long as the next shorter one does other work. A batch that is
a quarter smaller takes 0.75 times as long, and the graphs of a validation 0.3 times (JAX)."""


def class_graphs(executable: IntArray, length: IntArray) -> IntArray:
    """The class of each launch of an executable graph, from 0 by time."""
    numbers, place = np.unique(executable, return_inverse=True)
    if len(numbers) < 2:
        return np.zeros(len(executable), np.int32)
    order = np.lexsort((length, place))
    first = np.searchsorted(place[order], np.arange(len(numbers) + 1))
    typical = np.maximum(length[order][(first[:-1] + first[1:]) // 2], 1)
    ascending = np.argsort(typical, kind="stable")
    is_longer = typical[ascending][1:] >= APART * typical[ascending][:-1]
    classes = np.empty(len(numbers), np.int32)
    classes[ascending] = np.r_[0, np.cumsum(is_longer)]
    return np.asarray(classes[place])
