"""Compatibility rules: each breaks on what it is about, and on nothing else."""

from pathlib import Path

import pytest
from packaging.version import Version

from gpu_profile.declared.base_name import cuda_of, distribution_of
from gpu_profile.declared.rule import Facts, Rule
from gpu_profile.errors import SettingsError
from gpu_profile.image import compatibility
from gpu_profile.image.compatibility import collect_facts, parse_archs
from gpu_profile.settings import settings
from gpu_profile.settings.settings import Settings


def versions(**texts: str) -> dict[str, Version]:
    return {name: Version(text) for name, text in texts.items()}


BROKEN = {
    "EFA on Ubuntu 20.04": Facts(distribution="ubuntu20.04", versions=versions(efa="1.43.0")),
    "EFA on Debian 11": Facts(distribution="debian11", versions=versions(efa="1.51.0")),
    "NCCL plugin by installer": Facts(versions=versions(efa="1.37.0")),
    "CUDA and old GPUs": Facts(cuda=Version("13.0"), archs=(70, 90), compiles=True),
    "CUDA and new GPUs": Facts(cuda=Version("12.4"), archs=(90, 100), compiles=True),
    "CUDA 13's new names": Facts(cuda=Version("13.0"), archs=(101,), compiles=True),
    "nsys and old GPUs": Facts(versions=versions(nsys="2025.4.1"), archs=(70,)),
    "nsys and new GPUs": Facts(versions=versions(nsys="2024.6.2"), archs=(100,)),
    "Open MPI 5 under an operator": Facts(versions=versions(mpi="5"), manifest="kind: MPIJob"),
}
HOLDING = (
    Facts(),
    Facts(distribution="ubuntu20.04", versions=versions(efa="1.42.0")),
    Facts(distribution="ubuntu22.04", versions=versions(efa="1.50.0")),
    Facts(distribution="debian11", versions=versions(efa="1.50.0")),
    Facts(cuda=Version("13.0"), archs=(75, 80, 90, 100, 103, 120), compiles=True),
    Facts(cuda=Version("12.4"), archs=(90, 100)),
    Facts(cuda=Version("12.9"), archs=(70, 90, 100, 103), compiles=True),
    Facts(versions=versions(nsys="2025.3.2"), archs=(70, 90, 100)),
    Facts(versions=versions(nsys="2026.4.1"), archs=(80, 90, 100)),
    Facts(versions=versions(mpi="4"), manifest="kind: MPIJob"),
    Facts(versions=versions(mpi="5"), manifest=""),
)


@pytest.mark.parametrize("rule", compatibility.RULES, ids=lambda rule: str(rule.name))
def test_each_rule_breaks_alone(rule: Rule) -> None:
    ((broken, what),) = compatibility.list_broken(BROKEN[rule.name])
    assert broken is rule
    assert what
    assert rule.reason
    assert rule.source
    assert rule.hint


@pytest.mark.parametrize("facts", HOLDING, ids=repr)
def test_what_works_breaks_none(facts: Facts) -> None:
    assert compatibility.list_broken(facts) == ()


def test_our_own_manifest_serves_open_mpi_5() -> None:
    manifest = (Path(__file__).parents[3] / "k8s" / "mpijob.yaml").read_text()
    assert compatibility.list_broken(Facts(versions=versions(mpi="5"), manifest=manifest)) == ()


def load(**values: str) -> Settings:
    return settings.load_settings(
        Path("/none"), {}, [f"{key}={value}" for key, value in values.items()]
    )


def test_facts_of_settings() -> None:
    facts = collect_facts(
        load(
            BASE_IMAGE="nvcr.io/nvidia/cuda:13.0.2-devel-ubuntu22.04",
            INSTALL_EFA="true",
            EFA_VERSION="1.50.0",
            NSYS_SOURCE="nvidia",
            NSYS_VERSION="2026.4.1",
        )
    )
    assert facts.base_image == "nvcr.io/nvidia/cuda:13.0.2-devel-ubuntu22.04"
    assert (facts.distribution, facts.cuda) == ("ubuntu22.04", Version("13.0"))
    assert facts.versions == versions(efa="1.50.0", nsys="2026.4.1", mpi="4")
    assert facts.archs == (80, 90, 100)


def test_facts_of_the_embedded_base() -> None:
    facts = collect_facts(load(BASE_IMAGE="gpu-profile-base:0123", NSYS_SOURCE="debian"))
    assert (facts.distribution, facts.cuda) == ("debian13", None)
    assert facts.versions == versions(mpi="5")


def test_a_broken_rule_is_one_line_with_reason_source_and_way_out() -> None:
    old = load(BASE_IMAGE="nvidia/cuda:12.4.1-devel-ubuntu20.04", INSTALL_EFA="true")
    with pytest.raises(SettingsError) as caught:
        compatibility.check_compatibility(old)
    assert str(caught.value) == (
        "EFA installer 1.50.0 does not install on ubuntu20.04: the installer dropped it in 1.43 "
        "(docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-changelog.html). "
        "Take a BASE_IMAGE of Ubuntu 22.04 or newer, or EFA_SOURCE=distro."
    )
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("image", "distribution", "cuda"),
    [
        ("nvcr.io/nvidia/cuda:13.0.2-devel-ubuntu22.04@sha256:1234", "ubuntu22.04", "13.0"),
        ("nvidia/cuda:12.8.1-devel-ubuntu24.04", "ubuntu24.04", "12.8"),
        ("ubuntu:24.04", "ubuntu24.04", None),
        ("debian:bookworm-slim", "debian12", None),
        ("debian:13", "debian13", None),
        ("embedded", "debian13", None),
        ("nvcr.io/nvidia/cuda-dl-base:26.06-cuda13.3-devel-ubuntu24.04", "ubuntu24.04", "13.3"),
        ("pytorch/pytorch:2.9.1-cuda12.8-cudnn9-devel", "", "12.8"),
        ("mine", "", None),
    ],
)
def test_names_of_images(image: str, distribution: str, cuda: str | None) -> None:
    assert distribution_of(image) == distribution
    assert cuda_of(image) == (Version(cuda) if cuda else None)


@pytest.mark.parametrize("text", ["", "90;100", "sm_90", "9.0", "90,,100", "1234"])
def test_architectures_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is not an architecture"):
        parse_archs(text)


def test_architectures() -> None:
    assert parse_archs("80, 90a,103f") == (80, 90, 103)
