"""Numbers for the page's script: byte planes, deflated, in base64.

All low bytes first, then all next ones: neighbours are alike, so deflate does well, and both
numpy and a browser take the planes apart at the speed of memory.
"""

import base64
import zlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import IntArray


@dataclass
class Packer:
    """Collects columns into one block; `add` tells where its column stands in it."""

    _parts: list[bytes] = field(default_factory=list)
    _size: int = 0

    def add(self, values: IntArray | NDArray[np.uint8]) -> list[int]:
        """[offset, count, bytes per value] of non-negative integers."""
        width = max(1, (int(values.max()).bit_length() + 7) // 8) if values.size else 1
        planes = [((values >> (8 * plane)) & 0xFF).astype(np.uint8) for plane in range(width)]
        part = b"".join(plane.tobytes() for plane in planes)
        place = [self._size, int(values.size), width]
        self._parts.append(part)
        self._size += len(part)
        return place

    def base64(self) -> str:
        """The block, deflated without a header (DecompressionStream's "deflate-raw")."""
        packer = zlib.compressobj(6, zlib.DEFLATED, -15)
        packed = packer.compress(b"".join(self._parts)) + packer.flush()
        return base64.b64encode(packed).decode()
