"""What `auto` becomes, from what answers; and that it stays so until asked anew."""

import json

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result
from gpu_profile.components.torch import TORCH_CPU_INDEX
from gpu_profile.engine.distribution import Distribution
from gpu_profile.image.auto import NVIDIA_BASE, Decided, decide_settings, with_base
from gpu_profile.image.embedded_base import make_recipe
from gpu_profile.settings.settings import Settings
from tests.unit.settings_for import settings_for

AUTO = ("BASE_IMAGE=auto", "NSYS_SOURCE=auto", "INSTALL_TORCH=auto", "TORCH_URL=auto")
APT = "Debian http://mirror.example/debian/\n"
DEBIAN = Distribution(id="debian", codename="bookworm", mirror="http://mirror.example/debian")
OS_RELEASE = 'ID=debian\nVERSION_CODENAME=bookworm\nPRETTY_NAME="Debian GNU/Linux 12"\n'
EVERYTHING = f"401 https://nvcr.io/v2/\n200 {TORCH_CPU_INDEX}\n" + (
    "200 https://developer.download.nvidia.com/devtools/repos/\n"
)


def _answer(command: Command, reachable: str, gpus: str, recorded: str) -> Result:
    line = " ".join(command.argv)
    answers = {
        "image inspect --format {{index": recorded,
        "curl": reachable,
        "docker info": gpus,
        "cat /etc/os-release": OS_RELEASE,
        "indextargets": APT,
        "image inspect --format {{.Id}}": "sha256:1",
    }
    return Result(returncode=0, stdout=next((v for k, v in answers.items() if k in line), ""))


def _decide(
    settings: Settings, reachable: str, *, gpus: str = "{}", recorded: str = "", anew: bool = False
) -> Decided:
    steps = decide_settings(settings, anew=anew)
    answer = None
    while True:
        try:
            command = steps.send(answer) if answer else next(steps)
            answer = _answer(command, reachable, gpus, recorded)
        except StopIteration as stop:
            decided: Decided = stop.value
            return decided


def test_nothing_answers() -> None:
    decided = _decide(settings_for(*AUTO, "NCCL_SOURCE=auto"), "000 https://nvcr.io/v2/\n")
    assert decided.settings.base_image.startswith("gpu-profile-base:")
    chosen = {name: decided.settings.component[name] for name in ("NSYS_SOURCE", "INSTALL_TORCH")}
    assert chosen == {"NSYS_SOURCE": "debian", "INSTALL_TORCH": "cpu"}
    assert (decided.settings.component["TORCH_URL"], decided.decisions["TORCH_URL"]) == ("", "")
    assert decided.settings.component["NCCL_SOURCE"] == "pypi"
    assert len(decided.notes) == 4


def test_everything_answers_on_a_machine_with_gpus() -> None:
    runtimes = '{"nvidia": {}, "runc": {}}'
    decided = _decide(settings_for(*AUTO, "NCCL_SOURCE=auto"), EVERYTHING, gpus=runtimes)
    assert decided.decisions == {
        "BASE_IMAGE": NVIDIA_BASE,
        "INSTALL_TORCH": "cuda",
        "NSYS_SOURCE": "nvidia",
        "TORCH_URL": TORCH_CPU_INDEX,
    }
    assert decided.settings.component["NCCL_SOURCE"] == "base"


def test_an_earlier_decision_is_kept_until_asked_anew() -> None:
    recorded = json.dumps({"BASE_IMAGE": NVIDIA_BASE, "NSYS_SOURCE": "nvidia"})
    settings = settings_for("BASE_IMAGE=auto", "NSYS_SOURCE=auto")
    assert _decide(settings, "", recorded=recorded).settings.base_image == NVIDIA_BASE
    anew = _decide(settings, "", recorded=recorded, anew=True)
    assert anew.settings.component["NSYS_SOURCE"] == "debian"


@pytest.mark.parametrize("recorded", ["", "<no value>", "null", "[]", '{"BASE_IMAGE": 1'])
def test_a_record_that_is_none(recorded: str) -> None:
    decided = _decide(settings_for("NSYS_SOURCE=auto"), EVERYTHING, recorded=recorded)
    assert decided.decisions == {"NSYS_SOURCE": "nvidia"}


def test_what_is_set_is_not_asked_about() -> None:
    steps = decide_settings(settings_for())
    with pytest.raises(StopIteration) as stop:
        next(steps)
    assert stop.value.value.decisions == {}


def test_a_missing_embedded_base_is_made_by_commands_of_its_own() -> None:
    decided = Decided(settings=settings_for(), decisions={}, base_recipe=make_recipe(DEBIAN))
    made = process.plan(with_base(decided))
    assert [command.argv[0] for command in made] == ["sh", "mktemp", "mmdebstrap", "docker", "rm"]
    assert process.plan(with_base(Decided(settings=settings_for(), decisions={}))) == ()


@pytest.mark.parametrize("anew", [False, True])
def test_deciding_makes_no_base(anew: bool) -> None:
    decided = _decide(settings_for("BASE_IMAGE=embedded"), "", anew=anew)
    assert decided.base_digest == ("" if anew else "sha256:1")
    assert (decided.base_recipe is not None) is anew


def test_a_digest_in_the_name_is_the_bases() -> None:
    decided = _decide(settings_for("BASE_IMAGE=r.example/cuda@sha256:12"), "")
    assert (decided.base_digest, decided.base_recipe) == ("sha256:12", None)
