"""The script of docs/try-on-aws.md, against a real registry and moto in the place of ECR."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result
from gpu_profile.registry import address as registry_address
from gpu_profile.settings.places import ROOT
from tests.live.registry.conftest import ACCOUNT, PASSWORD, REGION, Registry

pytestmark = [pytest.mark.registry, pytest.mark.docker]
OTHER = "somebody-elses"


def run_script(folder: Path, *words: str) -> Result:
    script = str(ROOT / "scripts" / "try_on_aws.py")
    places = {"DOCKER_CONFIG": str(folder / "none")}
    argv = ("env", f"--chdir={folder}", sys.executable, script, f"--region={REGION}", *words)
    return process.run(Command(argv=argv, env=places))


def list_images() -> str:
    words = ("docker", "image", "ls", "--quiet", "--filter=reference=*/gpu-profile-try-*")
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
    assert done.returncode == 0, done.said
    report = (tmp_path / "try-on-aws.md").read_text()
    assert "| ecr | passed | " in report
    assert "- nothing is left" in report
    names = [each["repositoryName"] for each in ecr.describe_repositories()["repositories"]]
    assert names == [OTHER]
    assert list_images() == ""
    assert PASSWORD not in done.stdout + done.stderr + report


def test_a_failed_trial_is_reported_and_the_next_is_skipped(
    where: registry_address.Registry, real_registry: Registry, ecr: Any, tmp_path: Path
) -> None:
    words = ("--only=ecr,efa", f"--registry={real_registry.address}", "--image=absent-image:1")
    done = run_script(tmp_path, *words, "--yes")
    assert done.returncode == 8, done.said
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
    assert shown.returncode == 0, shown.said
    assert "costs below 0.01 USD" in shown.stdout
    assert "skipped: no --context and --instance were given" in shown.stdout
    assert ACCOUNT in shown.stdout
    assert not list(tmp_path.iterdir())
