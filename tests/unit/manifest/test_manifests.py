"""The user's own manifests: what the edit of each kind adds, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.manifest.documents import YamlText
from gpu_profile.manifest.edit import Edit
from gpu_profile.manifest.user_manifest import EditedManifest, Entrypoint, UserManifest
from tests.invoked import invoke

DATA = Path(__file__).parents[2] / "data" / "manifests"
OPTIONS = {"pod": {"container": "main"}, "other": {"template": "spec.members.*.template"}}
EDIT = Edit(
    job=Job(name="train-20261121-031500", command=("train",)),
    plan=NsysPlan(options=("--trace=cuda,nvtx", "--env-var=A=$(B)")),
)


def read(text: str, **options: str) -> UserManifest:
    return UserManifest.read(YamlText(name="a.yaml", text=text), **options)


def read_file(kind: str) -> UserManifest:
    yaml_text = YamlText(name=f"{kind}.yaml", text=(DATA / f"{kind}.yaml").read_text())
    return UserManifest.read(yaml_text, **OPTIONS.get(kind, {}))


def describe(manifest: UserManifest, edited: EditedManifest) -> str:
    target = manifest.target
    lines = [f"# {target.title}: {container.describe()}" for container in target.containers]
    return "\n".join([*lines, edited.difference])


@pytest.mark.parametrize("kind", sorted(path.stem for path in DATA.glob("*.yaml")))
def test_the_difference_of_each_kind(kind: str, golden: Callable[[str, str], None]) -> None:
    manifest = read_file(kind)
    edited = manifest.edit(EDIT)
    golden(f"manifest-{kind}.diff", describe(manifest, edited))
    comments = [line for line in manifest.yaml.text.splitlines() if "#" in line]
    assert all(line.partition("#")[2] in edited.after for line in comments)
    before, after = (list(yaml.safe_load_all(text)) for text in (edited.before, edited.after))
    assert before == list(yaml.safe_load_all(manifest.yaml.text))
    assert len(before) == len(after)
    assert manifest.edit(EDIT) == edited


def test_the_command_keeps_its_words_and_ours_are_not_expanded() -> None:
    (pod,) = yaml.safe_load_all(read_file("pod").edit(EDIT).after)
    command = pod["spec"]["containers"][0]["command"]
    assert command[command.index("--") + 1 :] == ["./vectorAdd", "--size", "$(SIZE)"]
    assert "--env-var=A=$$(B)" in command


def test_ranks_and_pods_as_far_as_the_manifest_says_them() -> None:
    targets = {kind: read_file(kind).target for kind in ("pytorchjob", "mpijob", "jobset", "job")}
    assert {kind: (t.pods, t.ranks, t.gpus) for kind, t in targets.items()} == {
        "pytorchjob": (2, 16, 8),
        "mpijob": (2, 16, 8),
        "jobset": (8, 64, 0),
        "job": (2, 2, 8),
    }


def test_the_images_own_command_stands_where_the_manifest_has_none() -> None:
    text = POD.replace("command: [a]", "args: [--fast]")
    manifest = read(text)
    assert manifest.list_images() == ("i",)
    with pytest.raises(SettingsError, match=r"container c of a\.yaml has no command"):
        read(POD.replace("command: [a]", "args: []")).edit(EDIT)
    image = Entrypoint(entrypoint=("/start.sh",), cmd=("--slow",))
    edited = manifest.with_entrypoints({"i": image}).edit(EDIT)
    container = yaml.safe_load(edited.after)["spec"]["containers"][0]
    assert container["command"][-2:] == ["--", "/start.sh"]
    assert container["args"] == ["--fast"]


POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i, command: [a]}]}
"""
SECOND = "---\n" + POD.replace("name: p", "name: q")
OTHER = """
apiVersion: example.com/v1
kind: Thing
metadata: {name: t}
spec: {workers: [{template: {spec: {containers: [{name: c, image: i, command: [a]}]}}}]}
"""
REFUSED = {
    "several containers": (
        POD.replace("[{name: c", "[{name: d, image: i}, {name: c"),
        {},
        "has 2 containers: d, c. Choose by --container",
    ),
    "no such container": (POD, {"container": "x"}, "has no container 'x'"),
    "unknown kind": (OTHER, {}, "no known kind: Thing. Use --template spec.workers.0.template"),
    "wrong path": (
        OTHER,
        {"template": "spec.x"},
        "no pod template at spec.x. Use --template spec.",
    ),
    "helm": ("{{- if .Values.a }}\na: {{ .Values.b }}\n", {}, "is a template of helm"),
    "no yaml": ("a: [1\nb: 2\n", {}, "line 2 is no YAML"),
    "no pods": ("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n", {}, "no object with pods"),
    "no object": ("- 1\n", {}, "holds no object"),
    "empty": ("", {}, "holds no object"),
    "several": (POD + SECOND, {}, "several objects with pods: Pod p, Pod q. Choose by --container"),
    "no name": (POD.replace("{name: p}", "{}"), {}, "has no metadata.name"),
    "long name": (POD.replace("name: p", "name: " + "p" * 64), {}, "longer than 63"),
    "no spec": ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", {}, "has no pod template"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_manifest_that_cannot_be_profiled_is_one_line(case: str) -> None:
    text, options, said = REFUSED[case]
    with pytest.raises(SettingsError) as refusal:
        read(text, **options)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_verb_prints_the_difference_or_refuses_and_starts_nothing(
    tmp_path: Path, fake_tool: Callable[..., Callable[[], list[list[str]]]]
) -> None:
    kubectl = fake_tool("kubectl", "exit 1")
    (tmp_path / "pod.yaml").write_text(POD)
    shown = invoke("profile", "--manifest=pod.yaml", "--dry-run", directory=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("# Pod p: container c of 1 pod: one report of all its processes")
    assert "+++ pod.yaml under nsys" in shown.stdout
    flag = invoke("profile", "--manifest=pod.yaml", "--nodes=2", directory=tmp_path)
    missing = invoke("profile", "--manifest=none.yaml", directory=tmp_path)
    assert (flag.returncode, missing.returncode) == (2, 2)
    assert "--nodes: the manifest decides that" in flag.stderr
    assert "--manifest none.yaml: No such file" in missing.stderr
    assert kubectl() == []


def test_an_object_that_exists_stays_as_it_is(
    tmp_path: Path, fake_tool: Callable[..., Callable[[], list[list[str]]]]
) -> None:
    kubectl = fake_tool("kubectl", "echo '{}'")
    (tmp_path / "pod.yaml").write_text(POD)
    done = invoke("profile", "--manifest=pod.yaml", directory=tmp_path)
    assert done.returncode == 2
    assert "Pod p exists on the cluster already" in done.stderr
    assert [words[:3] for words in kubectl()] == [["get", "pods", "p"]]
    assert not list(tmp_path.glob("*/run.json"))
