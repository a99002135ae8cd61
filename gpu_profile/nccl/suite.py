"""The NCCL tests as jobs: which programs, which sizes, and how results are judged."""

import contextlib
import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from gpu_profile import files
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.declared.version import parse_version
from gpu_profile.errors import ReportError, SettingsError
from gpu_profile.job import Job, Resources
from gpu_profile.nccl.gate import check_bandwidth, check_correct, prove_efa
from gpu_profile.nccl.measurement import Measurement, parse_size, size_text
from gpu_profile.nccl.output import parse_output
from gpu_profile.nccl.results_json import parse_json, redact_json

COLLECTIVES: tuple[str, ...] = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "alltoall",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "sendrecv",
    "hypercube",
)
_MIN_SIZE, _STEP = 8, 2
_WITH_JSON = Version("2.17.3")
# INIT and NET have the lines that prove_efa() reads.
_DEBUG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}


@dataclass(frozen=True, kw_only=True)
class Suite:
    """The options of `test --suite nccl`. `min_busbw` is GB/s at `at` bytes; None is no gate."""

    collectives: tuple[str, ...] = ("all_reduce",)
    max_size: int = 2**30
    min_busbw: float | None = None
    at: int = 2**30
    efa: bool = False
    efa_nics: int | None = None
    timeout_s: int = 600


def parse_collectives(text: str) -> tuple[str, ...]:
    """Return the collectives of `all_reduce,all_gather` or `all`. A suffix `_perf` is allowed."""
    names = [name.strip().removesuffix("_perf") for name in text.split(",") if name.strip()]
    if names == ["all"]:
        return COLLECTIVES
    for name in names:
        if name not in COLLECTIVES:
            raise SettingsError(
                f"{name!r} is not a collective", f"Use all or of {', '.join(COLLECTIVES)}"
            )
    if not names:
        raise SettingsError("--collective names none", f"Use all or of {', '.join(COLLECTIVES)}")
    return tuple(dict.fromkeys(names))


def make_suite(
    collective: str, *, min_busbw: float | None, at: str, max_size: str = "", efa: bool = False
) -> Suite:
    """Return the options after checking them against each other."""
    size = parse_size(at)
    top = parse_size(max_size) if max_size else max(size, 2**30)
    if min_busbw is not None and min_busbw <= 0:
        what = f"--min-busbw {min_busbw:g} is not a floor"
        raise SettingsError(what, "Give it in GB/s, as in 400")
    if size > top or size < _MIN_SIZE or size & (size - 1):
        raise SettingsError(
            f"{size_text(size)} would not be measured",
            f"Sizes go from {_MIN_SIZE} by {_STEP} to {size_text(top)}: give --at one of them",
        )
    names = parse_collectives(collective)
    return Suite(collectives=names, max_size=top, min_busbw=min_busbw, at=size, efa=efa)


def list_words(collective: str, flags: Suite, *, gpus_per_process: int) -> tuple[str, ...]:
    """Return the program's command line.

    One process drives all GPUs of a node (`-g N`), or MPI starts one process for each GPU (`-g
    1`).
    """
    return (
        f"{collective}_perf",
        *("-b", str(_MIN_SIZE)),
        *("-e", str(flags.max_size)),
        *("-f", str(_STEP)),
        *("-g", str(gpus_per_process)),
        *("-c", "1"),
        *("-T", str(flags.timeout_s)),
    )


def writes_json(version: str) -> bool:
    """Return whether nccl-tests of this version (a tag or a number) has `-J`.

    Older ones print their usage instead, exit with 0 and measure nothing.
    """
    number = parse_version(version)
    return number is not None and number >= _WITH_JSON


def with_json(job: Job, collective: str, directory: str) -> Job:
    """Return the job with `-J`: it writes its numbers into a file of `directory` too."""
    file = f"{directory}/{collective}.nccl.json"
    return dataclasses.replace(job, command=(*job.command, "-J", file))


def make_jobs(
    suite: Suite, *, name: str, image: ImageRef | None, resources: Resources
) -> tuple[Job, ...]:
    """Return one job for each collective, without nsys.

    With several nodes or tasks, MPI starts one process for each GPU, otherwise one process drives
    all.
    """
    by_mpi = resources.nodes > 1 or (resources.tasks_per_node or 1) > 1
    gpus = 1 if by_mpi else resources.gpus_per_node or 1
    return tuple(
        Job(
            name=f"{name}-{collective.replace('_', '-')}",
            command=list_words(collective, suite, gpus_per_process=gpus),
            image=image,
            profile=None,
            resources=resources,
            env=_DEBUG if suite.efa else {},
        )
        for collective in suite.collectives
    )


def redact_results(directory: Path) -> None:
    """Remove environment values from the JSON files: nccl-tests writes the whole environment.

    Links and FIFOs are left alone here; read_results refuses them.
    """
    for path in sorted(directory.glob("*.nccl.json*")):
        with contextlib.suppress(ReportError):
            files.write_atomically(path, redact_json(files.read_text(path)))


def read_results(directory: Path, collective: str) -> Measurement:
    """Return a job's measurement, from its JSON if there is one, otherwise from its table."""
    path = directory / f"{collective}.nccl.json"
    if path.exists():
        return parse_json(files.read_text(path))
    log = directory / "output.log"
    if not log.exists():
        raise ReportError(f"{directory} has neither {path.name} nor output.log")
    return parse_output(files.read_text(log), f"{collective}_perf")[-1]


def judge_measurements(
    measurements: Iterable[Measurement], suite: Suite, logs: Iterable[str] = ()
) -> None:
    """Raise GateError for the first failure: wrong results, bandwidth, transport."""
    for measurement in measurements:
        check_correct(measurement)
        if suite.min_busbw is not None:
            check_bandwidth(measurement, suite.min_busbw, suite.at)
    if suite.efa:
        for log in logs:
            prove_efa(log, nics=suite.efa_nics)
