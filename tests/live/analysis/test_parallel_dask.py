"""A real Dask scheduler with two workers on loopback, one of them killed in the middle."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpu_profile.analysis.multi_report.work import ReportSource
from gpu_profile.analysis.nsys_tables.cuda.cuda_gpu_kern_sum import CUDA_GPU_KERN_SUM
from gpu_profile.analysis.our_tables.step_sum import STEP_SUM
from tests.invoked import invoke
from tests.reading import analyse_reports

pytestmark = pytest.mark.dask

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data" / "h200x4-ddp"
ANALYSES = [CUDA_GPU_KERN_SUM, STEP_SUM]


@dataclass
class Cluster:
    """A scheduler and its workers, each a process of ours."""

    folder: Path
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    address: str = ""

    def start(self, *words: str) -> Path:
        log = self.folder / f"{len(self.children)}.log"
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        with log.open("wb") as file:
            child = subprocess.Popen(
                (sys.executable, "-m", "distributed.cli." + words[0], *words[1:]),
                stdout=file,
                stderr=file,
                env=environ,
                cwd=self.folder,
            )
        self.children.append(child)
        return log

    def stop(self) -> None:
        for child in reversed(self.children):
            child.terminate()
        for child in self.children:
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _found(log: Path, pattern: str, timeout_s: float = 60) -> str:
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if match := re.search(pattern, log.read_text(errors="replace")):
            return match[0]
        time.sleep(0.2)
    raise TimeoutError(log.read_text(errors="replace"))


@pytest.fixture
def cluster(tmp_path: Path, require: Callable[[str, object], None]) -> Iterator[Cluster]:
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        require("dask", error)
    made = Cluster(tmp_path)
    try:
        log = made.start("dask_scheduler", "--host=127.0.0.1", "--port=0", "--no-dashboard")
        made.address = _found(log, r"tcp://127\.0\.0\.1:\d+")
        for _ in range(2):
            log = made.start(
                *("dask_worker", made.address, "--no-nanny", "--nthreads=1", "--no-dashboard"),
                "--host=127.0.0.1",
            )
            _found(log, "Registered to")
        yield made
    finally:
        made.stop()


def test_same_bytes_with_a_worker_killed_in_the_middle(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_profile.analysis.multi_report.parallel.QUIET_S", -1.0)
    sources = [ReportSource(str(DATA / f"rank{rank % 4}.sqlite.gz")) for rank in range(24)]
    victim = cluster.children[-1]
    said: list[str] = []

    def notify(line: str) -> None:
        said.append(line)
        if len(said) == 6:
            victim.kill()

    results = analyse_reports(sources, ANALYSES, scheduler=cluster.address, notify=notify)
    assert victim.wait(10) != 0
    assert said[-1] == "24 of 24 reports read"
    assert results == analyse_reports(sources, ANALYSES, workers=1)


def test_an_unreadable_report_is_named(cluster: Cluster, tmp_path: Path) -> None:
    bad = tmp_path / "rank7.sqlite"
    bad.write_bytes(b"")
    sources = [ReportSource(str(bad)), ReportSource(str(DATA / "rank0.sqlite.gz"))]
    results = analyse_reports(sources, ANALYSES, scheduler=cluster.address)
    assert [source.name for source, _ in results.refusals] == ["rank7.sqlite"]
    assert results.tables["cuda_gpu_kern_sum"].rows


def test_the_verbs_say_the_same_by_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    by_cluster = f"--scheduler={cluster.address}"
    reports = [f"--report={DATA}/rank{rank}.sqlite.gz" for rank in range(4)]
    for verb in ("stats", "diagnose"):
        here, there = (
            invoke(verb, *reports, *more, directory=tmp_path) for more in ((), (by_cluster,))
        )
        assert (there.returncode, there.stdout) == (0, here.stdout), there.stderr
    pages = [tmp_path / "here.html", tmp_path / "there.html"]
    for page, more in zip(pages, ((), (by_cluster,)), strict=True):
        words = (*reports, f"--output={page}", *more)
        assert invoke("html", *words, directory=tmp_path).returncode == 0
    assert pages[0].read_bytes() == pages[1].read_bytes()


SIXTY_FOUR = """
import resource, sys
from gpu_profile.analysis.multi_report.parallel import collect_partials, merge_answers
from gpu_profile.analysis.multi_report.work import ReportSource
from gpu_profile.analysis.tables.by_name import ANALYSES, OURS
count, analyses = int(sys.argv[2]), [ANALYSES["cuda_gpu_kern_sum"], OURS["step_sum"]]
sources = [ReportSource(sys.argv[1])] * count
merge_answers(sources, analyses, collect_partials(sources, analyses, workers=1))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_the_memory_of_64_ranks_is_that_of_one() -> None:
    """One process reads 64 reports one after the other: its peak hardly grows."""
    report = str(DATA / "rank0.sqlite.gz")

    def peak(count: int) -> int:
        words = (sys.executable, "-c", SIXTY_FOUR, report, str(count))
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        return int(subprocess.run(words, check=True, capture_output=True, env=environ).stdout)

    one, all_of_them = peak(1), peak(64)
    assert all_of_them < 1.25 * one
