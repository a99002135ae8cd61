"""Where pods go, on real nodes: what settings ask for, and names that two runs share."""

import json
import subprocess
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest

from gpu_profile import process
from gpu_profile.errors import SettingsError
from gpu_profile.job import NsysPlan
from gpu_profile.launchers.kubernetes.mpijob import MpiJobLauncher
from gpu_profile.runs import record
from tests.live.kubernetes.conftest import Cluster, kubectl, must
from tests.unit.launchers.test_kubernetes_manifests import KINDS, cpu_job
from tests.unit.settings_for import settings_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]


@pytest.fixture
def reserved(cluster: Cluster) -> Iterator[str]:
    """node-2 for the team alone, and a class of priority: its name."""
    name = f"class-{cluster.namespace}"
    node = must(kubectl("get", "nodes", "--output=name")).split()[-1].partition("/")[2]
    must(kubectl("create", "priorityclass", name, "--value=7"))
    must(kubectl("taint", "node", node, "team=a:NoSchedule"))
    must(kubectl("label", "node", node, "pool=reserved"))
    yield name
    must(kubectl("taint", "node", node, "team-"))
    must(kubectl("label", "node", node, "pool-"))
    must(kubectl("delete", "priorityclass", name))


@pytest.mark.alone
def test_pods_go_where_settings_say(cluster: Cluster, reserved: str) -> None:
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["reserved"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    settings = (
        "KUBE_NODE_SELECTOR=pool=reserved",
        "KUBE_TOLERATIONS=team=a:NoSchedule",
        f"KUBE_AFFINITY={json.dumps({'nodeAffinity': required})}",
        f"KUBE_PRIORITY_CLASS={reserved}",
        "KUBE_SERVICE_ACCOUNT=default",
    )
    words = (f"--set={setting}" for setting in settings)
    handle = cluster.started("mpijob", *words, "--", "sh", "-c", "sleep 1")
    must(cluster.kubectl("wait", "mpijob", "--all", "--for=condition=Running", "--timeout=120s"))
    specs = [pod["spec"] for pod in cluster.pods() if "probe" not in pod["metadata"]["name"]]
    assert len(specs) == 3
    assert {spec["priority"] for spec in specs} == {7}
    assert len({spec["nodeName"] for spec in specs}) == 1
    must(cluster.invoke("fetch", "--job", handle))


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("KUBE_PRIORITY_CLASS=nope", "no PriorityClass with name nope was found"),
        ("KUBE_SERVICE_ACCOUNT=nope", 'serviceaccount "nope" not found'),
        ("KUBE_NAMESPACE=no-such-team", 'namespaces "no-such-team" not found'),
    ],
)
def test_what_settings_name_and_the_cluster_lacks(
    cluster: Cluster, setting: str, line: str
) -> None:
    done = cluster.profile("mpijob", f"--set={setting}", "--", "true")
    assert done.returncode == 2, done.stderr
    assert line in done.stderr
    assert setting.partition("=")[0] in done.stderr


def test_two_runs_of_one_name_at_once(cluster: Cluster) -> None:
    where = ("--on=mpijob", "--nodes=2", "--gpus=0", f"--image={cluster.image}", "--name=twin")
    argv = cluster.argv("profile", *where, "--", "sh", "-c", "sleep 1")
    twins = [subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for twin in twins:
        _, said = twin.communicate()
        assert twin.returncode == 0, said
    assert len(list(cluster.directory.glob("twin-*/run.json"))) == 2
    assert len(cluster.reports()) == 4


def test_a_job_of_the_same_name_is_left_alone(namespace: str, operators: None) -> None:
    launcher = MpiJobLauncher.from_settings(settings_for(f"KUBE_NAMESPACE={namespace}"))
    job_id = process.drive(launcher.submit(cpu_job(), NsysPlan(options=())))
    first = must(kubectl(f"--namespace={namespace}", "get", "mpijob", "--output=name"))
    with pytest.raises(
        SettingsError, match=r"already exists\. Give the run another --name"
    ) as said:
        process.drive(launcher.submit(cpu_job(), NsysPlan(options=())))
    assert said.value.exit_code == 2
    assert must(kubectl(f"--namespace={namespace}", "get", "mpijob", "--output=name")) == first
    process.drive(launcher.cleanup(job_id))


@pytest.mark.parametrize("name", ["Ünï_Cödé X", "1st", "-x-", "a" * 100, "a.b", "$(touch x)"])
def test_any_name_of_a_run_is_one_that_the_cluster_takes(
    namespace: str, launcher: str, name: str
) -> None:
    (kind,) = [kind for kind in KINDS if kind.name == launcher]
    job = cpu_job(name=record.run_id(("true",), datetime.now(timezone.utc), name))
    launcher_of = kind.from_settings(settings_for(f"KUBE_NAMESPACE={namespace}"))
    create, *_ = process.plan(launcher_of.submit(job, NsysPlan(options=())))
    dry = ("create", "--dry-run=server", "--validate=strict", "--filename=-")
    must(kubectl(f"--namespace={namespace}", *dry, stdin=create.stdin))
