"""test --suite nccl from flags to verdict, on this host: the real flow, with programs that print
what nccl-tests printed on four H200s."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_profile.cli.options import jobs
from gpu_profile.cli.paths import records_file
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.errors import GateError, JobError, SettingsError, ToolError
from gpu_profile.registry.digests import save_digest
from gpu_profile.settings import settings
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.jobs import test as nccl
from tests.further import further

RECORDED = Path(__file__).parents[2] / "data" / "nccl-tests-all_reduce_perf-h200x4.txt"
GPUS = "".join(f"echo 'GPU {n}: NVIDIA H200 (UUID: GPU-{n})';" for n in range(4))
FakeTool = Callable[..., Callable[[], list[list[str]]]]


def options(**changes: Any) -> jobs.TestOptions:
    return jobs.TestOptions(**{"collective": "all_reduce", "at": "512M", **changes})


@pytest.fixture
def chosen(tmp_path: Path, fake_tool: FakeTool) -> Settings:
    fake_tool("nvidia-smi", GPUS)
    fake_tool("all_reduce_perf", f"cat {RECORDED}")
    words = ["LAUNCHER=host", f"REPORT_DIR={tmp_path}", "INSTALL_EFA=false"]
    return settings.load_settings(tmp_path / "none", {}, words)


def run(chosen: Settings, **changes: object) -> None:
    nccl.run_suite(chosen, options(**changes))


def test_table_curve_and_gate(
    chosen: Settings, fake_tool: FakeTool, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = fake_tool("all_reduce_perf", f"cat {RECORDED}")
    with pytest.raises(GateError, match=r"reaches 347\.61 GB/s at 512M, 400\.00 asked for"):
        run(chosen, min_busbw=400.0)
    said = capsys.readouterr().out
    assert "347.61" in said
    assert "  512M   347.61 |########################################" in said
    (words,) = calls()
    assert " ".join(words) == "-b 8 -e 1073741824 -f 2 -g 4 -c 1 -T 600"


@pytest.mark.further
def test_a_floor_by_name_and_the_verdict(
    chosen: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    run(chosen, floor="h200x4")
    verdict = capsys.readouterr().out.splitlines()[-1]
    assert verdict == "all_reduce: no wrong value, at least 312.85 GB/s at 512M"


def test_wrong_values_are_told_though_the_program_fails(
    chosen: Settings, fake_tool: FakeTool, tmp_path: Path
) -> None:
    text = RECORDED.read_text()
    bad = text.replace("347.61       0", "347.61       7").replace(
        "values : 0 OK", "values : 7 FAILED"
    )
    (tmp_path / "bad.txt").write_text(bad)
    fake_tool("all_reduce_perf", f"cat {tmp_path}/bad.txt; exit 1")
    with pytest.raises(GateError, match="gave 7 wrong values at 512M"):
        run(chosen)


@pytest.mark.further
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo 'Test NCCL failure'; exit 3", "exit code 3.*Test NCCL failure"),
        further(f"cat {RECORDED}; kill -SEGV $$", "the job failed"),
    ],
)
def test_a_test_that_dies(body: str, said: str, chosen: Settings, fake_tool: FakeTool) -> None:
    fake_tool("all_reduce_perf", body)
    with pytest.raises(JobError, match=said):
        run(chosen)


def test_a_dry_run_prints_every_collective(
    chosen: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    run(chosen, collective="all_reduce,alltoall", gpus="8", dry_run=True)
    said = capsys.readouterr().out
    assert '"all_reduce_perf"' in said
    assert '"alltoall_perf"' in said
    assert '"-g",\n    "8"' in said


@pytest.mark.parametrize("gpus", ["0", "5"])
def test_without_those_gpus(gpus: str, chosen: Settings) -> None:
    with pytest.raises(ToolError, match="GPUs"):
        run(chosen, gpus=gpus)


def test_flags_are_checked_first(chosen: Settings) -> None:
    with pytest.raises(SettingsError, match="No all_reduce of 'p9' was measured"):
        run(chosen, floor="p9")


def test_a_cluster_pulls_by_the_digest_that_push_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    pushed = ImageRef(
        registry="r.example", name="gpu-profile", tag="1", digest=f"sha256:{'1' * 64}"
    )
    save_digest(records_file(), pushed)
    words = ["LAUNCHER=mpijob", "REGISTRY=r.example", "VERSION=1"]
    chosen = settings.load_settings(tmp_path / "none", {}, words)
    nccl.run_suite(chosen, options(dry_run=True, nodes=2, gpus="8"))
    assert f"image: r.example/gpu-profile@{pushed.digest}" in capsys.readouterr().out


def test_an_image_of_slurm_is_its_own(chosen: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    on_slurm = dataclasses.replace(chosen, launcher="slurm")
    nccl.run_suite(on_slurm, options(dry_run=True, gpus="8", image="/shared/x.sqsh"))
    assert "--container-image=/shared/x.sqsh" in capsys.readouterr().out
