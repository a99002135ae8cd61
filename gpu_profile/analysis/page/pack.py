"""Pack integers for the page's script: byte planes, deflated, in base64.

All low bytes come first, then all next bytes. Neighbouring values have similar high bytes, so
deflate compresses the planes well, and numpy and a browser split them quickly.
"""

import base64
import zlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import IntArray


@dataclass
class Packer:
    """Collects columns into one block; `add` returns the position of its column."""

    _parts: list[bytes] = field(default_factory=list)
    _size: int = 0

    def add(self, values: IntArray | NDArray[np.uint8]) -> list[int]:
        """Add non-negative integers; return [offset, count, bytes for each value]."""
        width = max(1, (int(values.max()).bit_length() + 7) // 8) if values.size else 1
        planes = [((values >> (8 * plane)) & 0xFF).astype(np.uint8) for plane in range(width)]
        part = b"".join(plane.tobytes() for plane in planes)
        place = [self._size, int(values.size), width]
        self._parts.append(part)
        self._size += len(part)
        return place

    def base64(self) -> str:
        """The block in base64, deflated without a header ("deflate-raw" of DecompressionStream)."""
        # -15: zlib's way to say "without header"; 6 is its own default.
        packer = zlib.compressobj(6, zlib.DEFLATED, -15)
        packed = packer.compress(b"".join(self._parts)) + packer.flush()
        return base64.b64encode(packed).decode()
