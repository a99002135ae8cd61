"""The trials of try_on_aws.py: their commands, what they prove and cost, and what removes them."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gpu_profile.command import Command, make_command  # noqa: E402
from gpu_profile.nccl.floors import PLATFORMS  # noqa: E402

PREFIX = "gpu-profile-try"
NVIDIA_BASE = "nvcr.io/nvidia/cuda:13.0.2-devel-ubuntu22.04"
_DOWNLOADS = "nothing at AWS; some 10 GB of downloads"


@dataclass(frozen=True, kw_only=True)
class Place:
    """What the trials may use. `suffix` makes our names ours: `gpu-profile-try-3f9a1c`.

    `settings`: those of builds in place of a trial's own, such as a BASE_IMAGE of a mirror.
    `gpus`: GPUs of a node that `multinode` takes; 0 where pods have none, as in our tests.
    `ready_image`: an image that the cluster can pull; without it, the one that `efa` has built.
    """

    account: str
    region: str
    suffix: str
    registry: str = ""
    image: str = ""
    ready_image: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    context: str = ""
    instance: str = ""
    nodes: int = 2
    gpus: str = "all"
    chart: str = ""
    chart_image: str = ""

    @property
    def name(self) -> str:
        return f"{PREFIX}-{self.suffix}"

    @property
    def ecr(self) -> str:
        return f"{self.account}.dkr.ecr.{self.region}.amazonaws.com"

    @property
    def efa_image(self) -> str:
        return f"{self.registry or self.ecr}/{self.name}-efa:try"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Commands that must succeed in order, what they prove and cost, and what removes their traces.

    `needs`: a trial whose result this one uses. `missing`: why it cannot run here.
    """

    name: str
    proves: str
    cost: str
    commands: tuple[Command, ...]
    cleanup: tuple[Command, ...] = ()
    repository: str = ""
    needs: str = ""
    missing: str = ""


def make_verb(*words: str, **settings: str) -> Command:
    """Return `invoke WORDS` of this clone, with `--set` for each setting."""
    flags = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    # After `--` stands the job's command, which a flag of ours would become a part of.
    at = words.index("--") if "--" in words else len(words)
    program = (sys.executable, "-m", "invoke", "--search-root", str(ROOT))
    return make_command(*program, *words[:at], *flags, *words[at:])


def list_trials(place: Place) -> tuple[Trial, ...]:
    """Return the trials in their order: a later one may use what an earlier one has made."""
    ecr = {"REGISTRY": place.registry or place.ecr, "ECR_REGISTRY": place.ecr, "VERSION": "try"}
    ecr |= place.settings
    images = (_make_ecr_trial(place, ecr), _make_nvidia_trial(place), _make_efa_trial(place, ecr))
    return (*images, *_list_cluster_trials(place))


def _make_ecr_trial(place: Place, ecr: Mapping[str, str]) -> Trial:
    name = place.name
    target = f"{ecr['REGISTRY']}/{name}:try"
    source = make_verb("build", "--unlocked", IMAGE=name, **ecr)
    if place.image:
        source = make_command("docker", "tag", place.image, target)
    return Trial(
        name="ecr",
        proves="push creates a repository, uploads, and the digest can be pulled",
        cost="below 0.01 USD: the image stays for minutes, at 0.10 USD a GB and month",
        commands=(
            source,
            make_verb("push", IMAGE=name, **ecr),
            make_verb("pull", IMAGE=name, **ecr),
        ),
        cleanup=(make_command("docker", "image", "rm", "--force", target),),
        repository=name,
    )


def _make_nvidia_trial(place: Place) -> Trial:
    name = f"{place.name}-nvidia"
    nvidia = {"IMAGE": name, "BASE_IMAGE": NVIDIA_BASE, "NSYS_SOURCE": "nvidia", **place.settings}
    return Trial(
        name="nvidia",
        proves="NVIDIA's base image and apt repository build an image that passes its checks",
        cost=_DOWNLOADS,
        commands=(make_verb("build", "--unlocked", **nvidia), make_verb("test", **nvidia)),
        cleanup=(make_command("docker", "image", "rm", "--force", f"{name}:latest"),),
    )


def _make_efa_trial(place: Place, ecr: Mapping[str, str]) -> Trial:
    name = f"{place.name}-efa"
    efa = {**ecr, "IMAGE": name, "BASE_IMAGE": NVIDIA_BASE, "INSTALL_EFA": "true"}
    efa |= {"EFA_SOURCE": "installer", "INSTALL_MPI": "true", "INSTALL_TESTS": "true"}
    efa |= place.settings
    return Trial(
        name="efa",
        proves="AWS's EFA installer works in the build; the image with nccl-tests is in ECR",
        cost=f"{_DOWNLOADS}; below 0.02 USD for the image in ECR",
        commands=tuple(
            make_verb(*words, **efa) for words in (("build", "--unlocked"), ("test",), ("push",))
        ),
        cleanup=(make_command("docker", "image", "rm", "--force", place.efa_image),),
        repository=name,
        needs="ecr",
    )


def _list_cluster_trials(place: Place) -> Iterator[Trial]:
    where = ("--on=mpijob", f"--context={place.context}", f"--namespace={place.name}")
    shape = (f"--nodes={place.nodes}", f"--instance={place.instance}")
    job = (*where, *shape, f"--image={place.ready_image or place.efa_image}")
    train = (*job, f"--gpus={place.gpus}", "--name=try-on-aws")
    missing = "" if place.context and place.instance else "no --context and --instance were given"
    kubectl = ("kubectl", f"--context={place.context}")
    nodes = f"{place.nodes} nodes {place.instance}".rstrip()
    price = f"the price of {nodes}, which run anyway, for some 10 minutes"
    has_floor = place.instance.removeprefix("ml.") in PLATFORMS
    floor = (f"--floor={place.instance.removeprefix('ml.')}",) if has_floor else ()
    unknown = place.instance and not floor
    gate = f"measured; no floor of {place.instance} is known" if unknown else "that of the floor"
    yield Trial(
        name="eks",
        proves=f"EFA devices reach the pods; NCCL's bandwidth between nodes is {gate}",
        cost=price,
        commands=(
            make_command(*kubectl, "create", "namespace", place.name),
            make_verb("doctor", *where),
            make_verb("test", "--suite=nccl", *job, "--gpus=all", *floor),
        ),
        cleanup=(make_command(*kubectl, "delete", "namespace", "--ignore-not-found", place.name),),
        needs="" if place.ready_image else "efa",
        missing=missing,
    )
    yield Trial(
        name="multinode",
        proves="a training over several nodes leaves a report of every rank, and an answer",
        cost=price,
        commands=(make_verb("profile", "--ddp", *train),),
        needs="eks",
        missing=missing,
    )
    yield _make_injector_trial(place, missing)


def _make_injector_trial(place: Place, missing: str) -> Trial:
    target = (f"--context={place.context}", f"--release-namespace={place.name}")
    named = {"chart": place.chart, "image": place.chart_image}
    source = tuple(f"--{flag}={value}" for flag, value in named.items() if value)
    words = ("install", "--unlocked", *source, *target, "--", "python3", "/train.py")
    return Trial(
        name="injector",
        proves="NVIDIA's injector chart installs, is seen, and is removed",
        cost="nothing beside the nodes that run anyway",
        commands=(
            make_verb("k8s.injector", *words),
            make_verb("k8s.injector", "status", *target),
        ),
        cleanup=(make_verb("k8s.injector", "uninstall", *target),),
        needs="eks",
        missing=missing,
    )
