"""What an NCCL test must show: correct results, a bandwidth at one size, and the use of EFA."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpu_profile.errors import GateError
from gpu_profile.nccl.measurement import Measurement, Row, size_text

_PLOT_WIDTH = 40
_PROVIDER = re.compile(
    r"NET/OFI Selected [Pp]rovider is (?P<provider>[\w-]+)"
    r"(?:, fabric is (?P<fabric>[\w-]+))?(?:.*\(found (?P<nics>\d+) nics?\))?"
)
_NETWORK = re.compile(r"Using network (?P<network>\S[^\n]*?)\s*$", re.MULTILINE)
_LIBFABRIC = re.compile(r"(?:AWS )?Libfabric\b")
_SOCKETS = re.compile(r"^.*(?:NET/Socket|Using network Socket).*$", re.MULTILINE)
_GDR = re.compile(r"NET/(?:AWS )?Libfabric/\d+(?:\(\d+\))?/GDRDMA")


@dataclass(frozen=True, kw_only=True)
class Transport:
    """The network in NCCL's log. `nics` is None if the plugin did not log the number."""

    provider: str
    network: str
    nics: int | None
    gpu_direct: bool


def check_correct(measurement: Measurement) -> None:
    """Raise GateError if a value was wrong or out of bounds."""
    name = measurement.collective
    for row in measurement.rows:
        wrong = sum(half.wrong or 0 for half in (row.out_of_place, row.in_place) if half)
        if wrong:
            raise GateError(
                f"{name} gave {wrong} wrong values at {size_text(row.size)}",
                "Data is damaged on its way: test the GPUs and links, and other NCCL_ALGO values",
            )
    if measurement.out_of_bounds:
        raise GateError(f"{name} counts {measurement.out_of_bounds} values out of bounds")


def busbw_at(measurement: Measurement, size: int) -> float:
    """Return the GB/s at exactly this size, the lowest one of several cycles (`-N`)."""
    speeds = [row.busbw for row in measurement.rows if row.size == size]
    if not speeds:
        sizes = ", ".join(size_text(row.size) for row in measurement.rows)
        raise GateError(
            f"{measurement.collective} was not measured at {size_text(size)}",
            f"It was at {sizes}: choose one of them with --at, or widen the sizes",
        )
    return min(speeds)


def check_bandwidth(measurement: Measurement, minimum: float, size: int) -> None:
    """Raise GateError if the bandwidth at `size` is below `minimum`.

    One size only: in an average over sizes small messages hide a slow link.
    """
    speed = busbw_at(measurement, size)
    # Not `speed < minimum`, which a NaN would pass.
    if not speed >= minimum:
        raise GateError(
            f"{measurement.collective} reaches {speed:.2f} GB/s at {size_text(size)}, "
            f"{minimum:.2f} asked for",
            "Compare the curve with a healthy system's, and see NCCL_DEBUG=INFO for its transport",
        )


def prove_efa(log: str, *, nics: int | None = None) -> Transport:
    """Return the transport in an NCCL_DEBUG=INFO log. `nics`: how many each node must have found.

    It knows messages of aws-ofi-nccl ("NET/OFI Selected provider is efa, fabric is efa (found 32
    nics)") and of NCCL ("Using network Libfabric", "NET/Libfabric/0/GDRDMA"), in old and new
    spelling. Raises GateError unless every rank in the log used EFA.
    """
    sockets = _SOCKETS.search(log)
    if sockets:
        raise GateError(
            f"NCCL used sockets and not EFA: {sockets[0].strip()}",
            "Request EFA devices for the job, and see that the plugin loads (NCCL_NET_PLUGIN=ofi)",
        )
    providers = list(_PROVIDER.finditer(log))
    networks = [match["network"] for match in _NETWORK.finditer(log)]
    _require_efa([match["provider"] for match in providers], networks)
    counts = {int(match["nics"]) for match in providers if match["nics"]}
    if nics is not None and counts and counts != {nics}:
        numbers = ", ".join(map(str, sorted(counts)))
        raise GateError(
            f"EFA found {numbers} NICs on a node, {nics} expected",
            "Request all EFA devices of the instance for each node's job",
        )
    return Transport(
        provider=providers[0]["fabric"] or providers[0]["provider"],
        network=networks[0],
        nics=min(counts, default=None),
        gpu_direct=_GDR.search(log) is not None,
    )


def _require_efa(providers: list[str], networks: list[str]) -> None:
    hint = "EFA was asked for: run with NCCL_DEBUG=INFO on nodes with EFA devices"
    if not providers:
        raise GateError("The log has no line 'NET/OFI Selected provider is efa'", hint)
    if not networks:
        raise GateError("The log has no line 'Using network Libfabric'", hint)
    for provider in providers:
        if not provider.startswith("efa"):
            raise GateError(f"libfabric's provider is {provider}, not efa", hint)
    for network in networks:
        if not _LIBFABRIC.match(network):
            raise GateError(f"NCCL used the network {network}, not Libfabric", hint)


def draw_plot(measurement: Measurement) -> str:
    """Return the bus bandwidth by size as bars of text."""
    ranks = len(measurement.devices)
    over = f" over {ranks} ranks" if ranks else ""
    lines = [f"{measurement.collective}: busbw in GB/s{over}"]
    return "\n".join([*lines, *_draw_bars(row for row in measurement.rows if row.size)])


def _draw_bars(rows: Iterable[Row]) -> list[str]:
    rows = tuple(rows)
    top = max((row.busbw for row in rows), default=0.0) or 1.0
    return [
        f"{size_text(row.size):>6} {row.busbw:8.2f} |{'#' * round(_PLOT_WIDTH * row.busbw / top)}"
        for row in rows
    ]
