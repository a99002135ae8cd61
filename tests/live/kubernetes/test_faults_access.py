"""Rights that lack, connections that break, users who press Ctrl-C: nothing lost in silence."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result
from tests.live.kubernetes.conftest import Cluster, kubectl, must
from tests.live.kubernetes.proxy import Proxy, proxied

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]
RULES = (
    ("kubeflow.org", "mpijobs", ("create", "get", "patch", "delete")),
    ("", "pods", ("create", "get", "list", "delete")),
    ("", "pods/log", ("get",)),
    ("", "pods/exec", ("create",)),
    ("", "events", ("list",)),
    ("", "secrets", ("create",)),
)


def config_view() -> dict[str, object]:
    config: dict[str, object] = json.loads(
        must(kubectl("config", "view", "--raw", "--minify", "--flatten", "--output=json"))
    )
    return config


def role(cluster: Cluster, without: tuple[str, str]) -> None:
    """A service account that may do all that a job needs, but one thing."""
    rules = [
        {
            "apiGroups": [group],
            "resources": [resource],
            "verbs": [verb for verb in verbs if (verb, resource) != without],
        }
        for group, resource, verbs in RULES
    ]
    rules = [rule for rule in rules if rule["verbs"]]
    subjects = [{"kind": "ServiceAccount", "name": "user", "namespace": cluster.namespace}]
    api = "rbac.authorization.k8s.io"
    reference = {"apiGroup": api, "kind": "Role", "name": "user"}
    for manifest in (
        {"apiVersion": "v1", "kind": "ServiceAccount"},
        {"apiVersion": f"{api}/v1", "kind": "Role", "rules": rules},
        {
            "apiVersion": f"{api}/v1",
            "kind": "RoleBinding",
            "subjects": subjects,
            "roleRef": reference,
        },
    ):
        text = json.dumps({**manifest, "metadata": {"name": "user"}})
        must(cluster.kubectl("create", "--filename=-", stdin=text))


def as_user(cluster: Cluster, *words: str) -> Result:
    """A verb with the service account's rights."""
    view = config_view()
    token = must(cluster.kubectl("create", "token", "user")).strip()
    view["users"] = [{"name": view["users"][0]["name"], "user": {"token": token}}]  # type: ignore[index]
    path = cluster.directory / "kubeconfig"
    path.write_text(json.dumps(view))
    return process.run(Command(argv=cluster.argv(*words), env={"KUBECONFIG": str(path)}))


# Without this right: the exit code of `profile`, whether the job is still there, and what is said.
LACKING: dict[tuple[str, str], tuple[int, bool, str]] = {
    ("create", "pods"): (3, False, "for its nsys"),
    ("get", "pods"): (3, False, "asking for "),
    ("get", "pods/log"): (3, False, "for its nsys"),
    ("delete", "pods"): (3, False, "is left there"),
    ("create", "mpijobs"): (3, False, "starting sh-"),
    ("create", "secrets"): (3, False, "handing the variables of --env to sh-"),
    ("get", "mpijobs"): (3, True, "asking for "),
    ("list", "pods"): (3, True, "asking for the pods of "),
    ("create", "pods/exec"): (6, True, "cannot be read"),
    ("delete", "mpijobs"): (3, True, "is left there, its reports were fetched"),
    ("list", "events"): (0, False, ""),
    ("patch", "mpijobs"): (0, False, ""),
}


def cases() -> list[Any]:
    """Those that end before or in the run take seconds; a whole run is slow."""
    whole = (("list", "events"), ("patch", "mpijobs"), ("delete", "mpijobs"))
    return [
        pytest.param(right, id=" ".join(right), marks=[pytest.mark.slow] if right in whole else [])
        for right in LACKING
    ]


@pytest.mark.parametrize("lacking", cases())
def test_a_right_that_lacks_is_named(cluster: Cluster, lacking: tuple[str, str]) -> None:
    code, kept, line = LACKING[lacking]
    role(cluster, lacking)
    where = ("--on=mpijob", "--nodes=2", "--gpus=0", f"--image={cluster.image}")
    variable = "--env=HF_TOKEN=planted"
    done = as_user(cluster, "profile", *where, variable, "--", "sh", "-c", "sleep 1")
    assert "planted" not in done.stderr
    assert done.returncode == code, done.stderr
    assert not code or ("forbidden" in done.stderr.lower() and line in done.stderr)
    if code == 0 or lacking == ("delete", "mpijobs"):
        assert len(cluster.reports()) == 2
    doctor = as_user(cluster, "doctor", "--on=mpijob", "--format=json")
    assert " ".join(lacking) in doctor.stdout.replace("mpijobs.kubeflow.org", "mpijobs")
    there = must(cluster.kubectl("get", "mpijobs", "--output=name"))
    assert bool(there) == kept, "what ran is kept until it was read"


def test_a_stop_that_is_not_allowed_says_so(cluster: Cluster) -> None:
    role(cluster, ("patch", "mpijobs"))
    handle = cluster.started("mpijob", "--", "sh", "-c", "sleep 1")
    done = as_user(cluster, "stop", "--job", handle)
    assert done.returncode == 3, done.stderr
    assert "cannot patch resource" in done.stderr
    assert f"{handle} stopped" not in done.stdout


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    server = urlsplit(config_view()["clusters"][0]["cluster"]["server"])  # type: ignore[index]
    with proxied((str(server.hostname), server.port or 443)) as between:
        yield between


def through(cluster: Cluster, proxy: Proxy) -> dict[str, str]:
    """The environment of verbs whose kubectl goes through the proxy."""
    view = config_view()
    there = view["clusters"][0]["cluster"]  # type: ignore[index]
    name = urlsplit(there["server"]).hostname
    there |= {"server": f"https://127.0.0.1:{proxy.port}", "tls-server-name": name}
    path = Path(cluster.directory) / "kubeconfig"
    path.write_text(json.dumps(view))
    return {"KUBECONFIG": str(path)}


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["running", "fetching"])
def test_connections_cut(cluster: Cluster, proxy: Proxy, phase: str) -> None:
    """While the output is followed, and while files are copied: all of both arrives."""
    where = ("--on=mpijob", "--nodes=2", "--gpus=0", f"--image={cluster.image}")
    words = ("profile", *where, "--", "sh", "-c", "echo started; sleep 8; echo done")
    finished = threading.Event()
    cuts: list[str] = []

    def cut() -> None:
        while not finished.wait(2.0):
            records = [json.loads(p.read_text()) for p in cluster.directory.glob("*/run.json")]
            if records and records[0]["phase"] == phase and len(cuts) < 5:
                proxy.cut()
                cuts.append(phase)

    threading.Thread(target=cut, daemon=True).start()
    done = process.run(Command(argv=cluster.argv(*words), env=through(cluster, proxy)))
    finished.set()
    assert done.returncode == 0, done.stderr
    assert cuts
    assert len(cluster.reports()) == 2
    (output,) = cluster.directory.glob("*/output.log")
    assert output.read_text().count("done") == 2
