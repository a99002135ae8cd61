"""Services of docker compose files: what is added to one, its words, what is refused."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_profile import process
from gpu_profile.carrier import Carrier
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine.engine_answers import NO_DAEMON
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, Mount, NsysPlan, ProfileSpec
from gpu_profile.kubernetes.yaml_text import load_yaml
from gpu_profile.launchers.docker.launcher import DockerLauncher
from gpu_profile.manifest.compose import ComposeService, is_compose
from gpu_profile.manifest.user_manifest import Entrypoint
from tests.invoked import invoke

JOB = Job(
    name="train-1", command=("train",), carrier=Carrier(source="gpu-profile-0f3c", digest="0f3c")
)
PLAN = NsysPlan(options=("--trace=cuda,nvtx", "--env-var=A=$B"))
REPORTS = Mount(source=Path("/tmp/runs/train-1/container"), target="/wd/train-1")
IMAGE = Entrypoint(entrypoint=("/start.sh",), cmd=("--slow",))


def service(**facts: Any) -> ComposeService:
    config = {"name": "p", "services": {"train": {"image": "i:1", **facts}}}
    chosen = ComposeService.choose(Path("compose.yaml"), config, "")
    return dataclasses.replace(chosen, image=IMAGE)


def test_what_is_added_to_a_service(golden: Callable[[str, str], None]) -> None:
    words = ["torchrun", "--nproc_per_node=2", "train.py", "--at=$$HOME"]
    text = service(command=words, read_only=True).make_override(JOB, PLAN, REPORTS, "run")
    golden("compose.gpu-profile.yaml", text)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, ("/start.sh", "--slow")),
        ({"command": ["a", "$$B"]}, ("/start.sh", "a", "$B")),
        ({"entrypoint": ["x"]}, ("x",)),
        ({"entrypoint": ["x"], "command": ["y"]}, ("x", "y")),
    ],
)
def test_the_words_of_a_service_or_of_its_image(
    facts: dict[str, Any], words: tuple[str, ...]
) -> None:
    assert service(**facts).words == words


def test_what_a_service_asks_for() -> None:
    def reserve(**device: Any) -> ComposeService:
        devices = [{"driver": "nvidia", **device}]
        return service(deploy={"resources": {"reservations": {"devices": devices}}})

    services = (
        *(service(), reserve(count=2, capabilities=["gpu"]), reserve(capabilities=["tpu"])),
        *(reserve(device_ids=["0", "3"], capabilities=["gpu"]), service(runtime="nvidia")),
        reserve(count=-1, capabilities=["gpu"]),
    )
    assert [each.count_gpus() for each in services] == [0, 2, 0, 2, None, None]
    assert service(command=["torchrun", "--nproc_per_node=4", "a"]).count_ranks() == 4
    assert service(entrypoint=["torchrun", "--nproc_per_node=4", "a"]).count_ranks() == 4
    sampling = NsysPlan(options=(), needs_privileges=True)
    text = service(tmpfs=["/tmp:size=1g"], read_only=True).make_override(JOB, sampling, REPORTS, "")
    added = load_yaml(text)["services"]["train"]
    assert (added["cap_add"], "tmpfs" in added) == (["SYS_ADMIN"], False)


def test_a_file_is_told_by_its_services() -> None:
    assert is_compose([{"services": {"a": {}}}])
    assert not is_compose([{"services": {"a": {}}, "kind": "Thing"}])
    assert is_compose([{"include": ["a.yaml"]}])
    assert is_compose([{"services": None}])
    assert not is_compose([{"services": {}}, {"kind": "Pod"}])


def test_a_file_that_cannot_be_profiled_is_one_line(
    tmp_path: Path, fake_tool: Callable[..., Callable[[], list[list[str]]]]
) -> None:
    config = {"services": {"a": {"image": "i", "command": ["x"]}, "b": {}}}
    for name, said in (
        ("", "has 2 services: a, b. Choose by --container"),
        ("c", "has no service 'c'. There are a, b"),
        ("b", "service b has no image:"),
    ):
        with pytest.raises(SettingsError, match=said):
            ComposeService.choose(Path("compose.yaml"), config, name)
    with pytest.raises(SettingsError, match=r"compose\.yaml has no service\. Write one"):
        ComposeService.choose(Path("compose.yaml"), {"services": {}}, "c")
    text = json.dumps(config)
    (tmp_path / "compose.yaml").write_text(text)
    answers = (
        f"case $* in *config*) echo '{text}';; *inspect*) echo 'No such image: i' >&2; exit 1;"
    )
    fake_tool("docker", f"{answers}; esac")

    def refuse(*words: str) -> tuple[int, str]:
        done = invoke("profile", "--manifest=compose.yaml", *words, directory=tmp_path)
        return done.returncode, done.stderr

    for words, said in (
        (("--container=a", "--nodes=2"), "--nodes: compose.yaml decides that"),
        (("--container=a", "--report-to=s3://a-b"), "--report-to: compose.yaml decides that"),
        (("--container=a",), "`docker compose --file=compose.yaml pull a` brings it"),
    ):
        code, shown = refuse(*words)
        assert (code, said in shown) == (2, True), shown
    fake_tool("docker", f"{answers.replace('No such image: i', NO_DAEMON)}; esac")
    code, shown = refuse("--container=a")
    assert (code, "doctor --fix` starts one" in shown) == (3, True), shown
    fake_tool("docker", "echo \"docker: 'compose' is not a docker command.\" >&2; exit 1")
    code, shown = refuse()
    assert code == 3
    assert "there is no docker compose here: docker: 'compose' is not" in shown
    assert not list(tmp_path.glob("*/run.json"))


def test_services_of_a_profile_are_found_by_name_and_an_unread_file_is_told(
    tmp_path: Path, fake_tool: Callable[..., Callable[[], list[list[str]]]]
) -> None:
    service = {"image": "i", "entrypoint": ["x"]}
    whole, enabled = (json.dumps({"services": {name: service}}) for name in ("debug", "main"))
    fake_tool("docker", f"case $* in *profile=*) echo '{whole}';; *config*) echo '{enabled}'; esac")
    (tmp_path / "compose.yaml").write_text(enabled)
    (tmp_path / "compose.override.yml").write_text(enabled)
    words = ("--manifest=compose.yaml", "--dry-run")
    done = invoke("profile", *words, "--container=debug", directory=tmp_path)
    assert done.stdout.startswith("# service debug of compose.yaml"), done.stderr
    assert "note: compose.override.yml is not read: `docker compose config" in done.stderr
    assert "# service main of" in invoke("profile", *words, directory=tmp_path).stdout


def test_an_image_of_ours_is_asked_for_recording_on_demand_and_for_no_file() -> None:
    launcher = DockerLauncher(image=ImageRef.parse("i:1"), report_dir=Path("/r"))
    launcher = launcher.with_service(service())
    job = Job(name="train-1", command=(__file__,), profile=ProfileSpec(record="manual"))
    (question,) = process.plan(launcher.check_job(job, PLAN))
    assert "--entrypoint=test" in question.argv
    assert process.plan(launcher.check_job(dataclasses.replace(job, profile=None), PLAN)) == ()


def test_a_service_that_starts_nothing_is_refused() -> None:
    empty = dataclasses.replace(service(), image=Entrypoint(entrypoint=(), cmd=()))
    with pytest.raises(SettingsError, match=r"service train of compose\.yaml starts no command"):
        empty.make_override(JOB, PLAN, REPORTS, "run")


def test_a_service_of_any_user_writes_its_reports_to_a_folder_of_its_own() -> None:
    launcher = DockerLauncher(image=ImageRef(name="i"), report_dir=Path("/runs"))
    launcher = launcher.with_service(service(entrypoint=["x"], user="1000"))
    job = dataclasses.replace(JOB, carrier=None)
    made, written, _ = process.plan(launcher.submit(job, PLAN))[:3]
    assert made.argv == ("mkdir", "-m", "1777", "/runs/train-1/image")
    (reports,) = load_yaml(written.stdin)["services"]["train"]["volumes"]
    assert reports["source"] == "/runs/train-1/image"


def test_the_tools_of_a_service_without_our_nsys_are_its_own_images(tmp_path: Path) -> None:
    """Our image, whose nsys others get, need not be on this machine."""
    (tmp_path / "image").mkdir()
    launcher = DockerLauncher(
        image=ImageRef(name="i"), carrier_image=ImageRef(name="ours"), report_dir=tmp_path
    )
    export = launcher.export("train-1", tmp_path / "rank0.h.nsys-rep", tmp_path / "x.sqlite")
    assert export is not None
    assert ("i:latest" in export.argv, "ours:latest" in export.argv) == (True, False), export


def test_a_service_that_torch_profiler_records_gets_our_agent_alone() -> None:
    carrier = Carrier(source="/agent", is_agent=True)
    job = dataclasses.replace(JOB, carrier=carrier, profile=ProfileSpec(tool="torch"))
    plan = NsysPlan(options=())
    text = service(command=["python", "train.py"]).make_override(job, plan, REPORTS, "run")
    added = load_yaml(text)
    ours = added["services"]["train"]
    assert ours["entrypoint"][:2] == ["python3", "/opt/gpu-profile/agent/run_container.py"]
    assert "--with=torch" in ours["entrypoint"]
    assert "nsys" not in text
    mount = {"source": "/agent", "target": "/opt/gpu-profile/agent"}
    assert ours["volumes"][1] == {"type": "bind", **mount, "read_only": True}
    assert "volumes" not in added
