"""The user's own manifests: what the edit of each kind adds, and what is refused."""

import contextlib
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.carrier import Carrier
from gpu_profile.command import Command, Result, Steps
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.kubernetes.report_place import ReportPlace
from gpu_profile.kubernetes.yaml_text import load_all_yaml, load_yaml
from gpu_profile.launchers.number_reports import choose_names
from gpu_profile.launchers.user_object import UserObject
from gpu_profile.manifest.documents import YamlText
from gpu_profile.manifest.edit import Edit, restore_object
from gpu_profile.manifest.user_manifest import EditedManifest, Entrypoint, UserManifest
from tests.further import keep_first
from tests.invoked import invoke
from tests.unit.settings_for import settings_for

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


@pytest.mark.parametrize("kind", keep_first(5, sorted(path.stem for path in DATA.glob("*.yaml"))))
def test_the_difference_of_each_kind(kind: str, golden: Callable[[str, str], None]) -> None:
    manifest = read_file(kind)
    edited = manifest.edit(EDIT)
    golden(f"manifest-{kind}.diff", describe(manifest, edited))
    comments = [line for line in manifest.yaml.text.splitlines() if "#" in line]
    assert all(line.partition("#")[2] in edited.after for line in comments)
    before, after = (load_all_yaml(text) for text in (edited.before, edited.after))
    assert before == load_all_yaml(manifest.yaml.text)
    assert len(before) == len(after)


def test_the_same_manifest_has_the_same_bytes() -> None:
    manifest = read_file("pod")
    assert manifest.edit(EDIT) == manifest.edit(EDIT)


def test_the_command_keeps_its_words_and_ours_are_not_expanded() -> None:
    (pod,) = load_all_yaml(read_file("pod").edit(EDIT).after)
    command = pod["spec"]["containers"][0]["command"]
    assert command[command.index("--") + 1 :] == ["./vectorAdd", "--size", "$(SIZE)"]
    assert "--env-var=A=$$(B)" in command


def test_nsys_is_carried_to_a_container_that_has_none() -> None:
    carrier = Carrier(source="registry.example/team/gpu-profile:1")
    edit = dataclasses.replace(EDIT, job=dataclasses.replace(EDIT.job, carrier=carrier))
    (pod,) = load_all_yaml(read_file("pod").edit(edit).after)
    spec, (container, sidecar) = pod["spec"], pod["spec"]["containers"]
    assert [init["image"] for init in spec["initContainers"]] == [carrier.source]
    volumes = {volume["name"] for volume in spec["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert container["command"][:2] == [carrier.python, "-E"]
    assert f"--nsys={carrier.nsys}" in container["command"]
    assert sidecar == {"name": "sidecar", "image": "registry.example/team/metrics:3"}


PLACES = {
    "pvc:shared:/data": ("persistentVolumeClaim", "/data", "/data"),
    "hostpath:/tmp": ("hostPath", "/gpu-profile/train-20261121-031500", "/gpu-profile"),
    "s3://team/night": ("emptyDir", "/gpu-profile", "/gpu-profile"),
}


@pytest.mark.parametrize("place", PLACES)
def test_reports_go_to_the_place_that_the_flag_names(place: str) -> None:
    source, mount, directory = PLACES[place]
    edit = dataclasses.replace(EDIT, place=ReportPlace.parse(place))
    (pod,) = load_all_yaml(read_file("pod").edit(edit).after)
    (volume,) = [
        volume for volume in pod["spec"]["volumes"] if volume["name"] == "gpu-profile-reports"
    ]
    mounts = {
        mount["name"]: mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]
    }
    assert (source in volume, mounts[volume["name"]]) == (True, mount)
    notes = pod["metadata"]["annotations"]
    assert notes["gpu-profile.io/reports"] == f"{directory}/{EDIT.job.name}"


def test_what_a_pod_needs_is_applied_before_a_pod_asks_its_image() -> None:
    account = "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: s}\n"
    rights = "securityContext: {runAsUser: 7, readOnlyRootFilesystem: true}"
    pod = POD.replace("command: [a]", f"command: [a], {rights}")
    manifest = read(f"{pod}---\nkind: Service\n{account}")
    launcher = UserObject.from_kind(settings_for(), manifest.target.kind, manifest)
    steps = launcher.probe(dataclasses.replace(EDIT.job, image=ImageRef.parse("i")))
    applied = next(steps)
    assert applied.argv[1] == "apply"
    assert "ServiceAccount" in applied.stdin
    assert "Service\n" not in applied.stdin
    created = steps.send(Result(returncode=0))
    assert created.argv[1] == "create"
    (container,) = load_yaml(created.stdin)["spec"]["containers"]
    assert container["securityContext"] == {"runAsUser": 7}  # PodSecurity wants it of that pod, too


def test_what_the_cluster_has_added_is_left_out_of_what_is_made() -> None:
    """`kubectl create` refuses resourceVersion, and `kubectl apply` an old one."""
    added = "resourceVersion: '7', uid: u, creationTimestamp: 2026-11-26T12:00:00Z, generation: 1"
    pod = POD.replace("{name: p}", f"{{name: p, {added}}}") + "status: {phase: Running}\n"
    account = "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: " + f"{{name: s, {added}}}\n"
    manifest = read(pod + account)
    edited = manifest.edit(EDIT)
    for text in (edited.after, edited.target, edited.others, manifest.dump_needs()):
        assert "resourceVersion" not in text
        assert not [key for key in ("uid: u", "status:", "generation:") if key in text]
    assert "-metadata: {name: p, resourceVersion: '7'" in edited.difference


def test_a_pod_that_was_printed_is_released_from_its_owner_and_node() -> None:
    """A ReplicaSet deletes a pod that has its labels and an owner, as one too many."""
    owned = "uid: u, ownerReferences: [{kind: ReplicaSet}], labels: {pod-template-hash: h, app: a}"
    pod = POD.replace("{name: p}", f"{{name: p, {owned}}}").replace(
        "spec: {", "spec: {nodeName: n, "
    )
    text = read(pod).edit(EDIT).target
    assert "app: a" in text
    assert not [key for key in ("ownerReferences", "pod-template-hash", "nodeName") if key in text]


def test_what_shares_an_alias_with_the_program_stays_as_it_is() -> None:
    text = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  selector: {matchLabels: &labels {app: d}}
  template:
    metadata: {labels: *labels}
    spec:
      containers:
      - {name: a, image: i, command: &words [serve], env: &env [{name: A, value: b}]}
      - {name: b, image: i, command: *words, env: *env}
"""
    edited = load_yaml(read(text, container="a").edit(EDIT).after)["spec"]
    ours, other = edited["template"]["spec"]["containers"]
    assert (other["command"], len(other["env"])) == (["serve"], 1)
    assert (ours["command"][-2:], len(ours["env"])) == (["--", "serve"], 2)
    assert edited["selector"]["matchLabels"] == {"app": "d"}


@pytest.mark.parametrize(("asked_s", "kept_s"), [(0, 86400), (604800, 604800)])
def test_an_mpijob_that_deletes_itself_waits_a_day_or_more(asked_s: int, kept_s: int) -> None:
    text = (DATA / "mpijob.yaml").read_text()
    old = f"  cleanPodPolicy: All\n  runPolicy:\n    ttlSecondsAfterFinished: {asked_s}\n"
    spec = load_yaml(read(text.replace("  runPolicy:\n", old)).edit(EDIT).after)["spec"]
    assert spec["cleanPodPolicy"] == spec["runPolicy"]["cleanPodPolicy"] == "None"
    assert spec["runPolicy"]["ttlSecondsAfterFinished"] == kept_s


def test_octal_numbers_stay_what_kubectl_reads() -> None:
    (pod,) = load_all_yaml(
        read("%YAML 1.1\n---" + POD.replace("[a]", "[a], n: 0644")).edit(EDIT).after
    )
    assert pod["spec"]["containers"][0]["n"] == 0o644
    with pytest.raises(SettingsError, match=r"line 4 is not YAML"):
        read("%YAML 1.1\n---\na: [\n}\n")


def test_ray_is_started_by_us_alone_or_by_the_users_own_command() -> None:
    text = (DATA / "raycluster.yaml").read_text()
    own = text.replace("ports:", "command: [sh, -c, prepare]\n            ports:")
    with pytest.raises(SettingsError, match="ray-head has a command, which RayCluster joins") as e:
        read(own)
    assert 'ray.io/overwrite-container-cmd: "true"' in str(e.value)
    kept = own.replace(
        "  name: search", '  name: x\n  annotations: {ray.io/overwrite-container-cmd: "true"}'
    )
    (cluster,) = load_all_yaml(read(kept).edit(EDIT).after)
    head = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    assert head["command"][-4:] == ["--", "sh", "-c", "prepare"]
    assert (read(kept).target.is_mixed, read_file("pytorchjob").target.is_mixed) == (True, False)


def test_a_directory_of_the_node_takes_root() -> None:
    edit = dataclasses.replace(EDIT, place=ReportPlace.parse("hostpath:/tmp"))
    for user, said in (("runAsUser: 7", "user 7"), ("runAsNonRoot: true", "no root")):
        text = POD.replace("command: [a]", f"command: [a], securityContext: {{{user}}}")
        with pytest.raises(SettingsError, match=f"is root's alone, and container c is {said}"):
            read(text).edit(edit)
    owner = POD.replace("spec: {", "spec: {securityContext: {runAsUser: 9}, ", 1)
    with pytest.raises(SettingsError, match="container c is user 9"):
        read(owner).edit(edit)


def test_cpu_sampling_takes_a_right_that_the_manifest_gives() -> None:
    sampling = dataclasses.replace(
        EDIT, plan=NsysPlan(options=("--sample=cpu",), needs_privileges=True)
    )
    with pytest.raises(SettingsError, match="needs SYS_ADMIN, which container c has not"):
        read(POD).edit(sampling)
    right = "command: [a], securityContext: {capabilities: {add: [SYS_ADMIN]}}"
    assert "--sample=cpu" in read(POD.replace("command: [a]", right)).edit(sampling).after


def test_a_claim_or_nvidias_runtime_brings_a_gpu_without_a_number() -> None:
    asked = {
        "i": 0,
        "i, resources: {limits: {nvidia.com/gpu: 2}}": 2,
        "i, resources: {limits: {nvidia.com/mig-1g.5gb: 1}}": 1,
        "i, resources: {claims: [{name: gpu}]}": 1,
    }
    for text, gpus in asked.items():
        assert read(POD.replace("image: i", f"image: {text}")).target.gpus == gpus
    assert read(POD.replace("spec: {", "spec: {runtimeClassName: nvidia, ")).target.gpus == 1


KINDS_WITH_RANKS = ("pytorchjob", "mpijob", "jobset", "job", "leaderworkerset", "raycluster")


def test_ranks_and_pods_as_far_as_the_manifest_says_them() -> None:
    targets = {kind: read_file(kind).target for kind in KINDS_WITH_RANKS}
    assert {kind: (t.pods, t.ranks, t.gpus) for kind, t in targets.items()} == {
        "pytorchjob": (2, 16, 8),
        "mpijob": (2, 16, 8),
        "jobset": (8, 64, 0),
        "job": (2, 2, 8),
        "leaderworkerset": (4, 4, 0),
        "raycluster": (4, 4, 1),
    }


def test_the_images_own_command_stands_where_the_manifest_has_none() -> None:
    text = POD.replace("command: [a]", "args: [--fast]")
    manifest = read(text)
    assert manifest.list_images() == ("i",)
    with pytest.raises(SettingsError, match=r"container c of a\.yaml has no command"):
        read(POD.replace("command: [a]", "args: []")).edit(EDIT)
    image = Entrypoint(entrypoint=("/start.sh",), cmd=("--slow",))
    edited = manifest.with_entrypoints({"i": image}).edit(EDIT)
    container = load_yaml(edited.after)["spec"]["containers"][0]
    assert container["command"][-2:] == ["--", "/start.sh"]
    assert container["args"] == ["--fast"]


def test_the_images_own_command_is_read_from_its_registry_or_asked_for(
    tmp_path: Path, fake_tool: Callable[..., Callable[[], list[list[str]]]]
) -> None:
    config = {"config": {"Entrypoint": ["/start.sh"], "Cmd": ["a"]}}
    several = json.dumps({"linux/arm64": {"config": {}}, "linux/amd64": config})
    (tmp_path / "pod.yaml").write_text(POD.replace("command: [a]", "args: [b]"))
    docker = fake_tool("docker", f"echo '{several}'")
    shown = invoke("profile", "--manifest=pod.yaml", "--dry-run", directory=tmp_path)
    assert "--, /start.sh]" in shown.stdout, shown.stderr
    assert docker()[0][-1] == "i"
    fake_tool("docker", "echo 'ERROR: i: not found' >&2; exit 1")
    refused = invoke("profile", "--manifest=pod.yaml", "--dry-run", directory=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.endswith(
        "cannot be read: ERROR: i: not found. Write its command: into the manifest.\n"
    )


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
    "no such container of a kind that names its own": (
        (DATA / "pytorchjob.yaml").read_text(),
        {"container": "x"},
        "has no container 'x'",
    ),
    "unknown kind": (
        OTHER,
        {},
        "no known kind: Thing of example.com/v1. Use --template spec.workers.*.template",
    ),
    "wrong path": (
        OTHER,
        {"template": "spec.x"},
        "no pod template at spec.x. Use --template spec.",
    ),
    "helm": ("{{- if .Values.a }}\na: {{ .Values.b }}\n", {}, "is a template of helm"),
    "helm where YAML reads a mapping": (
        POD.replace("image: i", "image: {{ .Values.image }}"),
        {},
        "is a template of helm, which is not YAML yet. Write it out first: helm template",
    ),
    "no yaml": ("a: [1\nb: 2\n", {}, "line 2 is not YAML"),
    "no pods": ("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n", {}, "no object with pods"),
    "no object": ("- 1\n", {}, "holds no object"),
    "empty": ("", {}, "holds no object"),
    "aliases": (
        "a: &a0 [x]\n" + "".join(f"b{n}: &a{n + 1} [{f'*a{n}, ' * 3}]\n" for n in range(40)),
        {},
        "no object with pods",
    ),
    "no container": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: []}\n",
        {},
        "a pod of the Pod has no container. Write one into it",
    ),
    "several": (POD + SECOND, {}, "several objects with pods: Pod p, Pod q. Choose by --container"),
    "no name": (POD.replace("{name: p}", "{}"), {}, "has no metadata.name"),
    "long name": (POD.replace("name: p", "name: " + "p" * 64), {}, "longer than 63"),
    "text in place of a list": (
        POD.replace("[a]", "python a.py"),
        {},
        'spec.containers.0.command of a.yaml is not a list. Write one: ["sh", "-c", "python',
    ),
    "a mapping in place of a list": (
        POD.replace("[a]", "[a], env: {A: b}"),
        {},
        "spec.containers.0.env of a.yaml is not a list. Write - before each item",
    ),
    "text in place of a number": (
        POD.replace("spec: {", 'spec: {terminationGracePeriodSeconds: "9", '),
        {},
        "Seconds of a.yaml is not a number. Write it without quotes",
    ),
    "text in place of a mapping": (POD.replace("{name: p}", "p"), {}, "metadata of a.yaml is not"),
    "no object in the place of a container": (
        POD.replace("[{name: c", "[x, {name: c"),
        {},
        "spec.containers.0 of a.yaml is not a mapping",
    ),
    "trained by its runtime alone": (
        "apiVersion: trainer.kubeflow.org/v1\nkind: TrainJob\nmetadata: {name: t}\nspec: {}\n",
        {},
        "the TrainJob of a.yaml has no container at spec.trainer. Write it there",
    ),
    "at its own times": (
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: t}\nspec: {jobTemplate: {}}\n",
        {},
        "a CronJob starts Jobs at its own times. `kubectl create job once --from",
    ),
    "KServe makes them": (
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\n"
        "metadata: {name: llama, namespace: team}\nspec: {predictor: {model: {}}}\n",
        {},
        "`kubectl get pod --namespace=team --selector=serving.kserve.io/inferenceservice=llama "
        "--output=yaml > pod.yaml`, give the pod in it another metadata.name",
    ),
    "Argo makes them": (
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {generateName: t-}\n"
        "spec: {templates: [{script: {image: a, command: [sh], source: b}},"
        " {container: {image: 'a b', command: [sh, -c], args: [x y]}}]}\n",
        {},
        "`kubectl create job once --image='a b' --dry-run=client --output=yaml -- sh -c 'x y'`",
    ),
    "several roles": (
        OTHER.replace("workers: [{", "roles: {a: {").replace(
            "}]}}}]}", "}]}}}, b: {template: {spec: {containers: []}}}}}"
        ),
        {},
        "Use --template spec.roles.*.template",
    ),
    "no spec": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n",
        {},
        "no container at spec.containers",
    ),
}


def test_the_objects_of_a_list_are_documents_and_what_is_null_is_none() -> None:
    nulls = "terminationGracePeriodSeconds: , volumes: , containers: [{env: , securityContext: , "
    pod = POD.replace("containers: [{", nulls).strip()
    items = "- apiVersion: v1\n  kind: Service\n- " + pod.replace("\n", "\n  ")
    manifest = read(f"apiVersion: v1\nkind: List\nitems:\n{items}\n")
    assert manifest.list_others() == ("Service",)
    pod_after = load_yaml(manifest.edit(EDIT).target)
    assert pod_after["spec"]["containers"][0]["command"][-2:] == ["--", "a"]


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
    assert "# no container asks for a GPU, so CUDA is not traced: --trace cuda" in shown.stdout
    assert "an init container brings ours where it has none (--carry)" in shown.stdout
    flag = invoke("profile", "--manifest=pod.yaml", "--nodes=2", directory=tmp_path)
    missing = invoke("profile", "--manifest=none.yaml", directory=tmp_path)
    alone = invoke("profile", "--on=host", "--yes", "--", "true", directory=tmp_path)
    assert (flag.returncode, missing.returncode, alone.returncode) == (2, 2, 2)
    assert "--yes is for --manifest, which is not given" in alone.stderr
    assert "--nodes: pod.yaml decides that" in flag.stderr
    other = invoke("profile", "--manifest=pod.yaml", "--queue=a", directory=tmp_path)
    assert (other.returncode, "--queue: pod.yaml decides that" in other.stderr) == (2, True)
    assert "--manifest none.yaml: No such file" in missing.stderr
    assert kubectl() == []


def test_a_trainjob_is_said_to_need_nsys_in_its_image(tmp_path: Path) -> None:
    trainer = {"image": "i", "command": ["torchrun", "a.py"]}
    kind = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    train = {**kind, "metadata": {"name": "t"}, "spec": {"trainer": trainer}}
    (tmp_path / "train.yaml").write_text(json.dumps(train))
    shown = invoke("profile", "--manifest=train.yaml", "--dry-run", directory=tmp_path)
    assert "# nsys: the image's own, which has to hold it: a TrainJob gets none\n" in shown.stdout


def test_an_object_whose_pods_cannot_be_changed_stays_as_it_is(
    tmp_path: Path, fake_tool: Callable[..., Callable[[], list[list[str]]]]
) -> None:
    kubectl = fake_tool("kubectl", "echo '{\"metadata\": {}}'")
    (tmp_path / "pod.yaml").write_text(POD)
    done = invoke("profile", "--manifest=pod.yaml", directory=tmp_path)
    assert done.returncode == 2
    assert "Pod p exists on the cluster already, and pods of its kind cannot be" in done.stderr
    assert [words[:3] for words in kubectl()] == [["get", "pods", "p"]]
    assert not list(tmp_path.glob("*/run.json"))


LIVE = """
apiVersion: apps/v1
kind: Deployment
metadata:
  {name: web, namespace: team, resourceVersion: "7", uid: u, labels: {a: b}, managedFields: [{}]}
spec:
  replicas: 1
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i, command: [serve]}]}
status: {replicas: 1}
"""


def launch(settings: tuple[str, ...] = ()) -> UserObject:
    manifest = read(LIVE.replace("image: i", "image: newer"))
    return UserObject.from_kind(settings_for(*settings), manifest.target.kind, manifest)


def test_an_object_that_runs_is_changed_as_the_cluster_has_it_and_put_back() -> None:
    live = load_yaml(LIVE)
    launcher = launch().replace_existing(live)
    (patch,) = process.plan(launcher.submit(EDIT.job, EDIT.plan))
    test, spec, labels, notes = json.loads(patch.stdin)
    assert patch.argv[-6:-1] == (
        *("patch", "deployments.apps", "web", "--type=json", "--patch-file=/dev/stdin"),
    )
    assert test == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    assert '"image": "newer"' not in patch.stdin
    assert labels["value"] == {"gpu-profile.io/run": EDIT.job.name, "a": "b"}
    changed = {
        **live,
        "metadata": {**live["metadata"], "labels": labels["value"], "annotations": notes["value"]},
        "spec": spec["value"],
    }
    assert changed["spec"] != live["spec"]
    assert "gpu-profile.io/wait-seconds" not in notes["value"]  # it is older than that
    restored = restore_object(changed, notes["value"]["gpu-profile.io/original"])
    assert restored["spec"] == live["spec"]
    assert (restored["metadata"]["labels"], restored["metadata"]["annotations"]) == ({"a": "b"}, {})
    with pytest.raises(SettingsError, match=r"exists .* for train-20261121-031500"):
        launch().replace_existing(changed)


def test_cleanup_puts_back_what_ran_before_and_deletes_what_we_made() -> None:
    live = load_yaml(LIVE)
    live["metadata"]["labels"]["gpu-profile.io/run"] = "r"
    deleted = drive_with(launch().cleanup("team/web"), json.dumps(live))
    assert "delete" in deleted[1].argv
    live["metadata"]["annotations"] = {"gpu-profile.io/original": "[]"}
    put_back = drive_with(launch().cleanup("team/web"), json.dumps(live))
    assert [command.argv[2] for command in put_back] == ["get", "patch"]


def drive_with(steps: Steps[None], answer: str) -> list[Command]:
    """The commands of steps whose first gets this answer and whose third fails."""
    commands = [next(steps)]
    with contextlib.suppress(StopIteration):
        commands.append(steps.send(Result(returncode=0, stdout=answer)))
        commands.append(steps.send(Result(returncode=0)))
        steps.send(Result(returncode=1))
    return commands


def test_pods_without_ranks_are_numbered_in_the_order_of_their_names() -> None:
    names = ["rank0.web-b.nsys-rep", "rank0.web-a.nsys-rep", "rank0.web-b.sqlite", "output.log"]
    assert choose_names(names) == {
        "rank0.web-b.nsys-rep": "rank1.web-b.nsys-rep",
        "rank0.web-b.sqlite": "rank1.web-b.sqlite",
    }
    assert choose_names(["rank0.a.nsys-rep", "rank1.a.nsys-rep", "rank2.b.nsys-rep"]) == {}


def test_an_object_that_is_stopped_before_its_pods_run_is_over(
    tmp_path: Path, fake_tool: Callable[..., Callable[[], list[list[str]]]]
) -> None:
    facts = {"name": "web", "annotations": {"gpu-profile.io/stopped": "true"}}
    fake_tool("kubectl", f"echo '{json.dumps({'metadata': facts, 'items': []})}'")
    done = invoke("status", "--job=deployment://team/web", directory=tmp_path)
    assert done.stdout == "cancelled: no pod of it ran\n", done.stderr


@pytest.mark.parametrize("handle", ["deployment://team/web", "thing.v1.example.com://team/t"])
def test_a_handle_of_any_kind_reaches_only_what_has_our_mark(
    handle: str, tmp_path: Path, fake_tool: Callable[..., Callable[[], list[list[str]]]]
) -> None:
    kubectl = fake_tool("kubectl", 'echo \'{"metadata": {"name": "web"}}\'')
    done = invoke("stop", "--job", handle, directory=tmp_path)
    assert done.returncode == 2
    assert "was not started by gpu-profile" in done.stderr
    assert {words[1] for words in kubectl()} == {"get"}
