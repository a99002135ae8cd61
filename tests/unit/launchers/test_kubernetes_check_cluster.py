"""doctor --on mpijob: one line each, with what to do, and never an exception."""

from gpu_profile.command import Result
from gpu_profile.declared.check import Check
from gpu_profile.kubernetes.kubectl import KubernetesCluster
from gpu_profile.launchers.kubernetes import check_cluster
from gpu_profile.launchers.kubernetes.mpijob import MpiJobLauncher
from tests.unit.launchers.kubernetes_objects import answer, driven, items, refused

KIND = MpiJobLauncher.kind
OK = Result(returncode=0)
VERSION = answer({"serverVersion": {"gitVersion": "v1.33.4"}})
CONTEXT = Result(returncode=0, stdout="gpus\n")
SERVED = answer({"resources": [{"name": "mpijobs"}]})
NODE = {"status": {"allocatable": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"}}}
RIGHTS = [OK] * 13
NAMESPACE = answer({"metadata": {"labels": {}}})


def checks(*answers: Result) -> dict[str, Check]:
    steps = check_cluster.check_cluster(KubernetesCluster(namespace="team"), KIND)
    results, _ = driven(steps, *answers)
    return {check.name: check for check in results}


def operator(image: str, up: int = 1) -> Result:
    spec = {"template": {"spec": {"containers": [{"image": image}]}}}
    status = {"availableReplicas": up} if up else {}
    return items({"metadata": {"name": "x"}, "spec": spec, "status": status})


MPI = operator("mpioperator/mpi-operator:0.8.0")


def test_a_cluster_that_has_everything() -> None:
    results = checks(VERSION, CONTEXT, SERVED, MPI, items(NODE, NODE), *RIGHTS, NAMESPACE, items())
    assert results["cluster"].result == "v1.33.4 at context gpus"
    assert results["operators"].result == "mpioperator/mpi-operator:0.8.0"
    assert results["GPUs"].result == "8 on 2 nodes"
    assert results["EFA"].result == "32 on 2 nodes"
    assert results["rights"].ok
    assert not results["hugepages"].ok


def test_an_operator_that_is_installed_and_does_not_run() -> None:
    down = operator("mpioperator/mpi-operator:0.8.0", up=0)
    results = checks(VERSION, CONTEXT, SERVED, down, items(NODE), *RIGHTS, NAMESPACE, items())
    assert not results["operators"].ok
    assert results["operators"].result == "mpioperator/mpi-operator:0.8.0 (not running)"


def test_no_cluster_is_one_line() -> None:
    results = checks(refused("The connection to the server x:6443 was refused"), CONTEXT)
    assert list(results) == ["cluster"]
    assert "VPN" in results["cluster"].advice
    assert results["cluster"].is_required, "doctor then ends with exit code 3"


def test_a_missing_operator_and_a_verb_that_lacks() -> None:
    rights = [OK, OK, Result(returncode=1), *RIGHTS[3:]]
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    space = answer({"metadata": {"labels": restricted}})
    dcgm = items({"metadata": {"name": "dcgm-exporter", "namespace": "gpu"}})
    results = checks(
        VERSION, CONTEXT, refused("NotFound"), items(), items(NODE), *rights, space, dcgm
    )
    assert "install-operator --operator mpi" in results["mpijobs.v2beta1.kubeflow.org"].advice
    assert results["rights"].advice.endswith("patch mpijobs.kubeflow.org")
    assert "KUBE_RUN_AS_USER" in results["PodSecurity"].advice
    assert results["DCGM"].result == "gpu/dcgm-exporter"


def test_a_role_that_may_not_create_secrets_can_do_all_but_env() -> None:
    rights = [*RIGHTS[2:], Result(returncode=1), Result(returncode=1)]
    results = checks(VERSION, CONTEXT, SERVED, MPI, items(NODE), *rights, NAMESPACE, items())
    assert results["rights"].ok
    assert not results["right for --env"].ok
    assert "create secrets" in results["right for --env"].advice
    assert "get secrets" in results["right to hide --env"].advice


def test_what_may_not_be_read_is_left_out_or_said() -> None:
    denied = refused("Error from server (Forbidden): x is forbidden: User y")
    results = checks(VERSION, CONTEXT, SERVED, denied, denied, *RIGHTS, denied, denied)
    assert "--gpus-per-node" in results["nodes"].advice
    assert results["mpijobs.v2beta1.kubeflow.org"].ok
