"""NVIDIA's injectors: the values that helm gets, the pattern, the label on a job's pods."""

import io
import re
from hashlib import sha256

import pytest

from gpu_profile import process
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.declared.kubernetes_settings import KubernetesSettings
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, NsysPlan, Resources
from gpu_profile.kubernetes import injector
from gpu_profile.kubernetes.injector import Injection
from gpu_profile.kubernetes.injector_charts import find_generation
from gpu_profile.kubernetes.kubectl import KubernetesCluster
from gpu_profile.launchers.kubernetes.mpijob import MpiJobLauncher
from gpu_profile.launchers.kubernetes.pod_options import PodOptions
from gpu_profile.launchers.kubernetes.pytorchjob import PyTorchJobLauncher
from gpu_profile.launchers.kubernetes.trainjob import TrainJobLauncher
from gpu_profile.lock.charts import pinned_chart, resolve_chart
from gpu_profile.lock.file import parse_lock, render_lock
from tests.unit.launchers.kubernetes_objects import driven, refused
from tests.unit.settings_for import settings_for

CLUSTER = KubernetesCluster(namespace="injectors")
DEVTOOLS, OPERATOR = find_generation("devtools"), find_generation("operator")
WINDOW = Injection(match="train", delay_s=30, duration_s=60)
JOB = Job(
    name="train-1",
    command=("python3", "/train.py"),
    resources=Resources(nodes=2, gpus_per_node=0, tasks_per_node=1),
    ddp=True,
)
PODS = PodOptions(image=ImageRef(name="gpu-profile"), injector=DEVTOOLS)


def test_a_window_does_not_end_the_job() -> None:
    words = injector.make_chart_values(DEVTOOLS, WINDOW)["profile"]["devtoolArgs"].split()
    assert words[0] == "profile"
    assert {"--delay=30", "--duration=60", "--kill=none"} <= set(words)
    assert words[-1] == "--output=/wd/injected/rank%q{RANK}.%h"


def test_placeholders_of_nvidias_get_the_prefix_of_the_generation() -> None:
    name = "rank%q{RANK}.{PROCESS_NAME}_%{POD_FULLNAME}_{TIMESTAMP}_{UID}"
    settings = settings_for(f"KUBE_INJECTOR_NAME={name}").of(KubernetesSettings)
    injection = Injection(match="train", name=settings.injector_name)
    assert injection.make_arguments(DEVTOOLS.prefix).endswith(f"/{name}")
    theirs = "{NVDT_PROCESS_NAME}_%{NVDT_POD_FULLNAME}_{NVDT_TIMESTAMP}_{NVDT_UID}"
    assert injection.make_arguments(OPERATOR.prefix).endswith(f"/rank%q{{RANK}}.{theirs}")


def test_each_generation_has_its_own_keys() -> None:
    assert injector.make_chart_values(DEVTOOLS, WINDOW)["profile"]["injectionMatch"] == "train"
    values = injector.make_chart_values(OPERATOR, WINDOW)
    assert values["nsight-injector"]["nsightToolConfig"]["injectionIncludePatterns"] == ["train"]
    assert values["machineConfig"] is None, "kernel settings of nodes are left alone"


def test_the_users_values_go_over_ours() -> None:
    more = injector.parse_values("profile: {injectionMatch: other, volumes: [{name: x}]}")
    values = injector.make_chart_values(DEVTOOLS, Injection(match="train", values=more))
    assert values["profile"]["injectionMatch"] == "other"
    assert values["profile"]["devtoolArgs"].startswith("profile ")


def test_the_pattern_fits_the_rank_and_not_torchrun() -> None:
    pattern = injector.match_of(("python3", "/train.py", "--lr", "1e-3"))
    assert re.search(pattern, "/usr/bin/python3 /train.py --lr 1e-3")
    assert re.search(pattern, "python3 /train.py --lr 1e-3")
    assert not re.search(
        pattern, "python3 /usr/bin/torchrun --no-python python3 /train.py --lr 1e-3"
    )


@pytest.mark.parametrize("text", ["a: [", "- 1", "3"])
def test_values_that_are_none(text: str) -> None:
    with pytest.raises(SettingsError, match="the values are no"):
        injector.parse_values(text)


def test_helm_gets_values_by_stdin_and_is_waited_for() -> None:
    (command,) = process.plan(injector.install_chart(CLUSTER, DEVTOOLS, "./chart", WINDOW))
    assert command.argv[:5] == (
        "helm",
        "--namespace=injectors",
        "upgrade",
        "--install",
        DEVTOOLS.release,
    )
    assert {"./chart", "--wait", "--values=-"} <= set(command.argv)


URL = "https://helm.test/charts/injector-1.0.0.tgz"


def test_a_chart_of_a_url_is_checked_before_helm_gets_it() -> None:
    steps = injector.install_chart(CLUSTER, DEVTOOLS, URL, WINDOW, sha256="a" * 64)
    commands = process.plan(steps)
    names = [command.argv[0] for command in commands]
    assert names == ["mktemp", "curl", "sha256sum", "helm", "rm"]
    assert commands[2].stdin.startswith("a" * 64)
    assert commands[3].argv[5].endswith("/injector-1.0.0.tgz")


def test_a_chart_of_a_url_without_a_checksum_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"not pinned .*`invoke lock --set KUBE_INJECTOR=dev"):
        process.plan(injector.install_chart(CLUSTER, DEVTOOLS, "", WINDOW))
    (command,) = process.plan(injector.install_chart(CLUSTER, DEVTOOLS, "", WINDOW, unlocked=True))
    assert DEVTOOLS.chart in command.argv


def test_the_lock_pins_the_chart() -> None:
    fetched = {DEVTOOLS.chart: b"a chart"}
    written = resolve_chart(
        settings_for("KUBE_INJECTOR=devtools"), lambda url: io.BytesIO(fetched[url])
    )
    read = parse_lock(render_lock(written))
    assert pinned_chart(read, DEVTOOLS) == sha256(b"a chart").hexdigest()
    assert pinned_chart(read, DEVTOOLS, URL) == pinned_chart(read, OPERATOR) == ""
    assert resolve_chart(settings_for(), lambda url: io.BytesIO()) == {}


def test_status_of_nothing_says_how_to_install() -> None:
    answers = [refused("Error: release: not found"), *[refused("")] * 3]
    results, _ = driven(injector.check_injector(CLUSTER, OPERATOR), *answers)
    assert not results[0].ok
    assert "--generation operator" in results[0].advice


def test_a_namespace_is_switched_by_the_generations_label() -> None:
    (on,) = process.plan(injector.set_namespace_label(CLUSTER, OPERATOR, "team", on=True))
    (off,) = process.plan(injector.set_namespace_label(CLUSTER, OPERATOR, "team", on=False))
    assert "nvidia-nsight-profile=enabled" in on.argv
    assert "nvidia-nsight-profile-" in off.argv


def test_a_pytorchjobs_pods_carry_the_label_and_run_the_plain_command() -> None:
    manifest = PyTorchJobLauncher(cluster=CLUSTER, options=PODS).manifest(JOB, NsysPlan(options=()))
    for replica in manifest["spec"]["pytorchReplicaSpecs"].values():
        labels = replica["template"]["metadata"]["labels"]
        assert labels == {"nvidia-devtools-sidecar-injector": "enabled"}
        (container,) = replica["template"]["spec"]["containers"]
        assert container["args"][1:5] == ["python3", "/profile.py", "--processes=1", "--plain"]


def test_a_trainjobs_patch_carries_the_label() -> None:
    manifest = TrainJobLauncher(cluster=CLUSTER, options=PODS).manifest(JOB, NsysPlan(options=()))
    assert "nvidia-devtools-sidecar-injector" in str(manifest["spec"]["runtimePatches"])


def test_an_mpijob_is_refused() -> None:
    with pytest.raises(SettingsError, match="does not see the ranks of an MPIJob"):
        MpiJobLauncher(cluster=CLUSTER, options=PODS).manifest(JOB, NsysPlan(options=()))
