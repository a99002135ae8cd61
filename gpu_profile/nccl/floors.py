"""Measured bus bandwidths of known systems, as limits for --floor. Used only on request."""

from dataclasses import dataclass

from gpu_profile.errors import SettingsError
from gpu_profile.nccl.measurement import size_text

_SHARE = 0.9
"""The share of the measured value to reach, as the tolerance of NCCL_TESTS_MIN_BW (common.cu)."""

_AWS = (
    "github.com/aws-samples/awsome-distributed-training, micro-benchmarks/nccl-tests/README.md "
    "at 0162aac"
)
_AWS_P6 = "github.com/awslabs/awsome-distributed-ai, micro-benchmarks/nccl-tests, untuned"
_HERE = "tests/data/nccl-tests-all_reduce_perf-h200x4.txt: nccl-tests 2.19.6, NCCL 2.28.9, no NVLS"


@dataclass(frozen=True, kw_only=True)
class Floor:
    """A measured bandwidth in GB/s: out of place, float, `size` bytes, `nodes` full nodes."""

    platform: str
    nodes: int
    size: int
    measured_gbs: float
    source: str
    collective: str = "all_reduce"

    @property
    def busbw(self) -> float:
        return round(_SHARE * self.measured_gbs, 2)


def _make_floor(platform: str, nodes: int, size: int, measured: float, source: str) -> Floor:
    return Floor(platform=platform, nodes=nodes, size=size, measured_gbs=measured, source=source)


FLOORS: tuple[Floor, ...] = (
    _make_floor("p4de.24xlarge", 2, 2**27, 64.31, _AWS),
    _make_floor("p4de.24xlarge", 2, 2**30, 76.79, _AWS),
    _make_floor("p4de.24xlarge", 2, 2**31, 78.33, _AWS),
    _make_floor("p5.48xlarge", 2, 2**27, 289.16, _AWS),
    _make_floor("p5.48xlarge", 2, 2**30, 436.95, _AWS),
    _make_floor("p5.48xlarge", 2, 2**31, 443.72, _AWS),
    _make_floor("p5.48xlarge", 2, 2**33, 479.28, _AWS),
    _make_floor("p5.48xlarge", 2, 2**34, 487.09, _AWS),
    _make_floor("p6-b200.48xlarge", 4, 2**30, 367.0, _AWS_P6),
    _make_floor("p6-b200.48xlarge", 4, 2**34, 377.0, _AWS_P6),
    _make_floor("p6-b300.48xlarge", 2, 2**34, 654.0, _AWS_P6),
    _make_floor("p6-b300.48xlarge", 2, 2**36, 751.0, _AWS_P6),
    _make_floor("h200x4", 1, 2**27, 329.06, _HERE),
    _make_floor("h200x4", 1, 2**29, 347.61, _HERE),
    _make_floor("h200x4", 1, 2**30, 353.75, "docs/kubernetes.md"),
)


PLATFORMS = tuple(dict.fromkeys(floor.platform for floor in FLOORS))
"""The names of --floor: `p5.48xlarge`, `h200x4`."""


def find_floor(platform: str, size: int, *, collective: str = "all_reduce") -> Floor:
    """Return the floor of a platform at a size. Raises SettingsError with the known ones."""
    of_platform = [f for f in FLOORS if f.platform == platform and f.collective == collective]
    if not of_platform:
        raise SettingsError(
            f"No {collective} of {platform!r} was measured",
            f"Give --min-busbw yourself, or name one of {', '.join(PLATFORMS)}",
        )
    for row in of_platform:
        if row.size == size:
            return row
    sizes = ", ".join(size_text(f.size) for f in of_platform)
    raise SettingsError(
        f"{platform} was not measured at {size_text(size)}", f"Use --at with one of {sizes}"
    )
