"""doctor names each right that pods have, and why it stays."""

from typing import cast

import pytest

from gpu_profile.cli.jobs import load_launcher
from gpu_profile.declared.check import Check
from gpu_profile.launchers.kubernetes.check_cluster import explain_rights
from gpu_profile.launchers.kubernetes.job.job import KubernetesJob
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from tests.unit.settings_for import settings_for


def explain(launcher: str, *settings: str) -> dict[str, Check]:
    options = PodOptions.from_settings(settings_for(*settings))
    kind = cast("type[KubernetesJob]", load_launcher(launcher)).kind
    return {check.name: check for check in explain_rights(kind, options)}


def test_our_image_needs_no_right() -> None:
    assert all(check.ok for check in explain("mpijob").values())
    assert "init container" not in explain("mpijob")["pods' capabilities"].result
    assert "init container" in explain("pytorchjob")["pods' capabilities"].result
    assert explain("pytorchjob")["pods' user"].result == "1000, not root"


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("KUBE_RUN_AS_USER=0", "KUBE_RUN_AS_USER is 0"),
        ("INSTALL_MPI=false", "no account"),
        ("KUBE_REPORT_TO=pvc:reports:/wd", "NFS or FSx"),
        ("KUBE_REPORT_TO=hostpath:/tmp", "A node's directory"),
    ],
)
def test_root_is_explained(setting: str, reason: str) -> None:
    check = explain("pytorchjob", setting)["pods' user"]
    assert not check.ok
    assert reason in check.advice


def test_the_capabilities_of_a_root_sshd_are_explained() -> None:
    check = explain("mpijob", "KUBE_RUN_AS_USER=0")["pods' capabilities"]
    assert check.result == "SETGID, SETUID, SYS_CHROOT in workers"
    assert "sshd" in check.advice
    assert explain("pytorchjob", "KUBE_RUN_AS_USER=0")["pods' capabilities"].ok


@pytest.mark.parametrize("launcher", ["mpijob", "pytorchjob", "trainjob"])
def test_no_pod_has_a_token(launcher: str) -> None:
    assert explain(launcher)["pods' API token"].result == "not mounted"
