"""The script of docs/ec2.md, against a real registry and moto in the place of ECR."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result
from gpu_profile.registry import address as registry_address
from gpu_profile.settings.places import ROOT
from tests.live.image.builds import PLAIN
from tests.live.registry.conftest import ACCOUNT, PASSWORD, REGION, Registry

pytestmark = [pytest.mark.registry, pytest.mark.docker]
OTHER = "somebody-elses"
FakeTool = Callable[..., Callable[[], list[list[str]]]]


@pytest.fixture(autouse=True)
def report_dir(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A trial's runs lie in a directory of the test's own, not in /tmp."""
    monkeypatch.setenv("REPORT_DIR", str(tmp_path_factory.mktemp("runs")))


def run_script(folder: Path, *words: str) -> Result:
    script = str(ROOT / "scripts" / "try_on_aws.py")
    places = {"DOCKER_CONFIG": str(folder / "none")}
    argv = ("env", f"--chdir={folder}", sys.executable, script, f"--region={REGION}", *words)
    return process.run(Command(argv=argv, env=places))


def start_cluster_trials(folder: Path, *words: str) -> "subprocess.Popen[str]":
    """The three trials of a cluster, of which the caller fakes kubectl."""
    script = str(ROOT / "scripts" / "try_on_aws.py")
    cluster = ("--only=eks,multinode,injector", "--context=c", "--instance=p5.48xlarge")
    argv = (sys.executable, script, f"--region={REGION}", "--yes", *cluster, *words)
    pipe = subprocess.PIPE
    return subprocess.Popen(
        argv, cwd=folder, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def list_images(server: Registry) -> str:
    words = (
        "docker",
        "image",
        "ls",
        "--quiet",
        f"--filter=reference={server.address}/gpu-profile-try-*",
    )
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def test_ecr_is_tried_cleaned_up_and_reported(
    where: registry_address.Registry,
    real_registry: Registry,
    make_image: Callable[..., None],
    ecr: Any,
    tmp_path: Path,
) -> None:
    ecr.create_repository(repositoryName=OTHER)
    local = real_registry.ref("local")
    make_image(local)
    words = ("--only=ecr", f"--registry={real_registry.address}", f"--image={local}", "--yes")
    done = run_script(tmp_path, *words)
    assert done.returncode == 0, done.last_line
    report = (tmp_path / "try-on-aws.md").read_text()
    assert "| ecr | passed | " in report
    assert "- nothing is left" in report
    names = [each["repositoryName"] for each in ecr.describe_repositories()["repositories"]]
    assert names == [OTHER]
    assert list_images(real_registry) == ""
    assert PASSWORD not in done.stdout + done.stderr + report


def test_a_failed_trial_is_reported_and_the_next_is_skipped(
    where: registry_address.Registry, real_registry: Registry, ecr: Any, tmp_path: Path
) -> None:
    words = ("--only=ecr,efa", f"--registry={real_registry.address}", "--image=absent-image:1")
    done = run_script(tmp_path, *words, "--yes")
    assert done.returncode == 8, done.last_line
    report = (tmp_path / "try-on-aws.md").read_text()
    assert "| ecr | failed | " in report
    assert "No such image: absent-image:1" in report
    assert "| efa | skipped | 0 |" in report
    assert "ecr did not pass" in report
    assert ecr.describe_repositories()["repositories"] == []


def test_no_account_is_one_line(
    monkeypatch: pytest.MonkeyPatch, ecr_api: object, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    done = run_script(tmp_path, "--yes")
    assert done.returncode == 3
    assert done.stderr.startswith("error: no AWS account: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "try-on-aws.md").exists()


def test_the_plan_says_costs_and_touches_nothing(tmp_path: Path) -> None:
    shown = run_script(tmp_path, "--dry-run", "--only=ecr,eks")
    assert shown.returncode == 0, shown.last_line
    assert "costs below 0.01 USD" in shown.stdout
    assert "skipped: no --context and --instance were given" in shown.stdout
    assert ACCOUNT in shown.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_was_made_is_removed_after_an_interruption(
    number: signal.Signals, ecr_api: object, fake_tool: FakeTool, tmp_path: Path
) -> None:
    calls = fake_tool("kubectl", '[[ "$*" == *namespace* ]] || exec sleep 60')
    child = start_cluster_trials(tmp_path, "--cluster-image=registry.example/efa:1")
    while not [words for words in calls() if "namespace" not in words]:
        assert child.poll() is None, child.communicate()
        time.sleep(0.1)
    os.killpg(child.pid, number) if number == signal.SIGINT else child.send_signal(number)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 130, out + err
    report = (tmp_path / "try-on-aws.md").read_text()
    assert "| eks | interrupted | " in report
    assert "| multinode |" not in report
    assert "- nothing is left" in report
    (made,) = (words[-1] for words in calls() if words[-3:-1] == ["create", "namespace"])
    assert calls()[-1][1:] == ["delete", "namespace", "--ignore-not-found", made]
    assert "Traceback" not in err


def test_without_kubectl_there_is_nothing_to_remove(
    ecr_api: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    child = start_cluster_trials(tmp_path, "--cluster-image=registry.example/efa:1")
    out, err = child.communicate(timeout=120)
    assert child.returncode == 8, out + err
    report = (tmp_path / "try-on-aws.md").read_text()
    assert "| eks | failed | " in report
    assert "kubectl is not installed here" in report
    assert "| multinode | skipped | 0 |" in report
    assert "- nothing is left" in report


def test_what_could_not_be_removed_is_named(
    ecr_api: object, fake_tool: FakeTool, tmp_path: Path
) -> None:
    fake_tool("kubectl", '[[ "$*" == *create* ]] || { echo "Forbidden: not you" >&2; exit 1; }')
    child = start_cluster_trials(tmp_path, "--cluster-image=registry.example/efa:1")
    out, err = child.communicate(timeout=120)
    assert child.returncode == 8, out + err
    cleaned = (tmp_path / "try-on-aws.md").read_text().partition("## Cleaned up")[2]
    assert "`kubectl --context=c delete namespace --ignore-not-found gpu-profile-try-" in cleaned
    assert "Forbidden: not you" in cleaned


def test_an_instance_without_a_known_floor_is_measured_only(tmp_path: Path) -> None:
    cluster = ("--context=c", "--cluster-image=registry.example/efa:1")
    shown = run_script(tmp_path, "--dry-run", "--only=eks", "--instance=g6.8xlarge", *cluster)
    assert "no floor of g6.8xlarge is known" in shown.stdout
    assert "--floor" not in shown.stdout
    assert "the price of 2 nodes g6.8xlarge, which run anyway" in shown.stdout
    known = run_script(tmp_path, "--dry-run", "--only=eks", "--instance=ml.p5.48xlarge", *cluster)
    assert "--floor=p5.48xlarge" in known.stdout


@pytest.mark.slow
def test_efa_is_built_checked_pushed_and_removed(
    where: registry_address.Registry,
    real_registry: Registry,
    make_image: Callable[..., None],
    ecr: Any,
    embedded: None,
    tmp_path: Path,
) -> None:
    """A base made here stands in for NVIDIA's, the distribution's libfabric for AWS's packages."""
    local = real_registry.ref("local")
    make_image(local)
    settings = {
        **dict(setting.split("=", 1) for setting in PLAIN),
        **{"INSTALL_TESTS": "false", "EFA_SOURCE": "distro"},
        **{"BUILD_OPTS": "--network=host"},
    }
    words = ("--only=ecr,efa", f"--registry={real_registry.address}", f"--image={local}")
    own = (f"--set={name}={value}" for name, value in settings.items())
    done = run_script(tmp_path, *words, *own, "--yes")
    report = (tmp_path / "try-on-aws.md").read_text()
    assert done.returncode == 0, report
    for name in ("ecr", "efa"):
        assert f"| {name} | passed | " in report
    assert "- nothing is left" in report
    assert ecr.describe_repositories()["repositories"] == []
    assert list_images(real_registry) == ""
