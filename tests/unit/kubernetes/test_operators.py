"""Operators: what is applied, and what two MPIJobs of one name mean."""

import re

import pytest
import yaml

from gpu_profile.command import Result
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.kubernetes import operators
from gpu_profile.kubernetes.kubectl import KubernetesCluster
from tests.unit.launchers.kubernetes_objects import answer, driven, items

CLUSTER = KubernetesCluster(context="gpus")
MPI, TRAINING = operators.find_operator("mpi"), operators.find_operator("training")
OK = Result(returncode=0)
MANIFEST = Result(returncode=0, stdout="kind: Namespace\nmetadata: {name: mpi-operator}\n")
V1 = answer({"status": {"storedVersions": ["v1"]}})
V2 = answer({"status": {"storedVersions": ["v1", "v2beta1"]}})
DEPLOYMENT = {
    "kind": "Deployment",
    "metadata": {"name": "training-operator", "namespace": "kubeflow"},
    "spec": {
        "template": {
            "spec": {
                "containers": [{"image": "x/training-operator:v1", "args": ["--leader-elect"]}]
            }
        }
    },
}


def test_onto_nothing() -> None:
    said, commands = driven(
        operators.install_operator(CLUSTER, MPI, "m.yaml"), OK, MANIFEST, OK, OK, OK
    )
    assert said == "the mpi operator serves mpijobs.kubeflow.org"
    apply = commands[2]
    assert "--server-side" in apply.argv
    assert apply.stdin == MANIFEST.stdout


def test_sources() -> None:
    assert not operators.is_kustomization("https://host/mpi-operator.yaml")
    assert operators.is_kustomization("https://host/x.git/manifests?ref=v1")
    assert operators.is_kustomization("./manifests")


@pytest.mark.parametrize("row", operators.OPERATORS, ids=lambda row: row.name)
def test_sources_are_pinned_by_commit_and_files_by_checksum(row: operators.Operator) -> None:
    assert re.search(r"(?:/raw/|\?ref=)[0-9a-f]{40}(?:/|$)", row.source)
    assert operators.is_kustomization(row.source) or re.fullmatch("[0-9a-f]{64}", row.sha256)


def test_a_manifest_is_checked_before_it_is_applied() -> None:
    """Its folder goes, whether it is the right file or another one."""
    folder = Result(returncode=0, stdout="/tmp/x\n")
    answers = [OK, folder, OK, OK, MANIFEST, OK, OK, OK, OK]
    _, commands = driven(operators.install_operator(CLUSTER, MPI), *answers)
    checked = next(c for c in commands if c.argv[:2] == ("sha256sum", "--check"))
    assert checked.stdin == f"{MPI.sha256}  /tmp/x/mpi-operator.yaml\n"
    assert [c.argv[-1] for c in commands if c.argv[0] == "rm"] == ["/tmp/x"]
    wrong = Result(returncode=1)
    actual = Result(returncode=0, stdout=f"{'0' * 64}  /tmp/x/mpi-operator.yaml\n")
    steps = operators.install_operator(CLUSTER, MPI)
    with pytest.raises(ToolError, match=f"has sha256 {'0' * 64}, expected {MPI.sha256}"):
        driven(steps, OK, folder, OK, wrong, actual, OK)


def test_mpijob_v1_is_not_taken_away_unasked() -> None:
    with pytest.raises(SettingsError, match="--replace-mpijob-v1"):
        driven(operators.install_operator(CLUSTER, MPI), V1, items())


def test_mpijob_v1_in_use_is_never_taken_away() -> None:
    steps = operators.install_operator(CLUSTER, MPI, replace_v1=True)
    with pytest.raises(SettingsError, match=r"1 MPIJobs use it\. Delete them"):
        driven(steps, V1, items({"metadata": {"name": "a"}}))


def test_mpijob_v1_goes_and_the_training_operator_stops_asking_for_it() -> None:
    steps = operators.install_operator(CLUSTER, MPI, replace_v1=True)
    fetched = [OK, OK, OK, MANIFEST, OK]  # folder, curl, checksum, kubectl, the folder goes
    answers = [V1, items(), items(DEPLOYMENT), OK, OK, *fetched, OK, OK, OK]
    _, commands = driven(steps, *answers)
    patch = next(c for c in commands if "patch" in c.argv)
    assert "--namespace=kubeflow" in patch.argv
    assert "--leader-elect" in patch.argv[-1]
    assert "--enable-scheme=pytorchjob" in patch.argv[-1]
    assert "mpijob" not in patch.argv[-1]


def test_the_training_operator_beside_an_mpi_operator_leaves_its_mpijob_out() -> None:
    crd = {"kind": "CustomResourceDefinition", "metadata": {"name": "mpijobs.kubeflow.org"}}
    text = yaml.safe_dump_all([crd, DEPLOYMENT])
    answers = [V2, Result(returncode=0, stdout=text), OK, OK, OK]
    _, commands = driven(operators.install_operator(CLUSTER, TRAINING, "./manifests"), *answers)
    (applied,) = yaml.safe_load_all(commands[2].stdin)
    assert (
        "--enable-scheme=pytorchjob" in applied["spec"]["template"]["spec"]["containers"][0]["args"]
    )


def test_a_crd_too_new_to_have_conditions_is_waited_for() -> None:
    new = Result(returncode=1, stderr="error: .status.conditions accessor error: <nil>")
    answers = [OK, MANIFEST, OK, new, OK, OK, OK]
    said, _ = driven(operators.install_operator(CLUSTER, MPI, "m.yaml"), *answers)
    assert "serves" in said


def test_an_operator_nobody_knows() -> None:
    with pytest.raises(SettingsError, match="Use one of mpi, training, trainer"):
        operators.find_operator("tf")
