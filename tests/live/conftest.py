"""Real parts that several live tests share, and which tests may run side by side."""

import importlib
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.live.side_by_side import ClusterLock, get_mode

CACHED = Path.home() / ".cache" / "gpu-profile" / "nsys" / "nsys"
PROCESSES = int(os.environ.get("GPU_PROFILE_LIVE_PROCESSES", "4"))
"""Of pytest-xdist's `--numprocesses=auto`. Live tests wait for pods, schedulers and grace periods:
two processes left one of two cores idle."""
CLUSTER_STARTS = "GPU_PROFILE_CLUSTER_STARTS"
"""The variable with the path of a file that .ci/stages makes once the cluster is there."""
FIRST = (
    *("kubernetes alone", "slurm", "ssh", "image/test_locked_builds.py", "docker runs"),
    *("registry/test_locked_push.py", "kubernetes/test_profile_kubernetes.py"),
    *("kubernetes/test_faults_pods.py", "kubernetes/test_user_manifests.py", "installed"),
    *("kubernetes/test_record_kubernetes.py", "kubernetes/test_claim.py"),
    *("kubernetes/test_faults_access.py", "image/test_efa_installer.py"),
    *("kubernetes/test_stop_live.py", "registry", "test_docker_carried.py"),
    *("annotate/test_marks_in_image.py", "kubernetes/test_carried_live.py"),
    *("kubernetes/test_open_mpi.py", "nsys/test_record.py", "kubernetes/test_injector_live.py"),
    *("test_engine_hangs.py", "kubernetes/test_placement.py"),
)
"""The groups that take minutes, the longest first: pytest-xdist begins with them, and fills up with
single tests. A group of minutes that begins late is run beside idle processes.

Those of the cluster stand after long ones of other engines: they wait until "kubernetes alone" has
ended, and a process that waits runs nothing else. It begins first also where the cluster's programs
are still built: at the end the four processes waited 970 to 1,520 s in all, otherwise 80 to 650 s.
"""
SINGLE = (
    *("host/test_host.py", "test_container_verbs.py", "test_each_verb_starts.py"),
    "test_nsys_cpu.py",
)
"""Files whose tests share nothing."""
DOCKER_RUNS = ("test_docker_profile.py", "annotate/test_marks_started.py")
"""Files that profile in Docker under our names: runs of one program that begin in one second
have one name, such as train-20261122-192505."""
WHOLE = ("slurm", "ssh", "registry", "installed")
"""Folders whose tests share a server, a queue or an image."""
ALONE = (
    "kubernetes/test_faults_machinery.py",
    "kubernetes/test_nccl_suite_live.py",
    "kubernetes/test_operators_live.py",
    "kubernetes/test_try_on_aws_cluster.py",
    "kubernetes/test_faults_pods.py::test_a_drained_node",
    "kubernetes/test_faults_pods.py::test_more_gpus_than_a_node_has",
    "kubernetes/test_faults_pods.py::test_a_worker_without_a_node_does_not_keep_the_master_waiting",
    "kubernetes/test_placement.py::test_pods_go_where_settings_say",
)
"""Files and tests with the marker `alone`. They run first, one after the other: in the middle such
a test waits for all others on the cluster, and no new one begins meanwhile. One took 147 s."""


def get_group(nodeid: str) -> str:
    """Return the name of the tests that one process runs one after the other, or "".

    `slurm` for "tests/live/slurm/test_slurm_live.py::test_two_jobs_at_once".
    """
    name = nodeid.partition("tests/live/")[2]
    if name.startswith(ALONE):
        return "kubernetes alone"
    path = name.partition("::")[0]
    if path in DOCKER_RUNS:
        return "docker runs"
    if path in SINGLE:
        return ""
    folder = path.partition("/")[0]
    return folder if folder in WHOLE and path not in FIRST else path


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have the long groups begin first where several processes run them."""
    if not hasattr(config, "workerinput"):
        return
    places = {group: number for number, group in enumerate(FIRST)}
    last = {True: len(FIRST), False: len(FIRST) + 1}
    groups = {item: get_group(item.nodeid) for item in items}
    apart = {item.nodeid for item in items if get_mode(item) == "alone"}
    listed = {item.nodeid for item in items if groups[item] == "kubernetes alone"}
    assert apart == listed, f"ALONE differs from the marker `alone`: {apart ^ listed}"
    items.sort(key=lambda item: places.get(groups[item], last[bool(groups[item])]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return PROCESSES


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Give each of our groups to one process, in place of pytest-xdist's files (loadscope).

    pytest-xdist 3.8's own loadgroup does nothing under pytest 9.2, where test names are read-only.
    """
    if config.getoption("dist") != "loadscope":
        return None
    scheduling = importlib.import_module("xdist.scheduler").LoadScopeScheduling(config, log)
    scheduling._split_scope = lambda nodeid: get_group(nodeid) or nodeid
    return scheduling


SECONDS: defaultdict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    SECONDS[report.nodeid] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the 25 slowest tests, with setup and teardown, and the groups that take longest."""
    slowest = sorted(SECONDS.items(), key=lambda item: -item[1])[:25]
    if not slowest or slowest[0][1] < 1:
        return
    terminalreporter.section("slowest tests")
    for nodeid, seconds in slowest:
        terminalreporter.write_line(f"{seconds:7.1f} s  {nodeid}")
    groups: defaultdict[str, float] = defaultdict(float)
    for nodeid, seconds in SECONDS.items():
        groups[get_group(nodeid) or "single tests"] += seconds
    terminalreporter.write_line("groups, each of which one process runs:")
    for group, seconds in sorted(groups.items(), key=lambda item: -item[1])[:15]:
        terminalreporter.write_line(f"{seconds:7.1f} s  {group}")
    terminalreporter.write_line(f"{sum(groups.values()):7.1f} s  all")


LOCK = ClusterLock()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Tests that are alone on the cluster follow each other without letting others in between."""
    LOCK.take(get_mode(item))
    try:
        return (yield)
    finally:
        if get_mode(nextitem) != "alone":
            LOCK.give_back()


@pytest.fixture(scope="session")
def nsys(require: Callable[[str, object], None]) -> str:
    """A real nsys: the one that NSYS names, the one on PATH, or what nsys-oracle.sh unpacked."""
    cached = str(CACHED) if CACHED.exists() else None
    path = os.environ.get("NSYS") or shutil.which("nsys") or cached
    require("nsys", not path and f"not here; tests/live/nsys-oracle.sh {CACHED.parent} gets one")
    return str(path)
