"""Images that tests build for themselves, on the embedded base with the distribution's nsys."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from gpu_profile import process
from gpu_profile.command import Command
from gpu_profile.image import auto, downloads
from gpu_profile.image import build as image
from gpu_profile.image.build_log import BuildLog
from gpu_profile.settings.settings import Settings, load_settings
from tests.image.checks import NOT_APPLICABLE, in_container, last_line
from tests.image.test_checks import CHECKS

ROOT = Path(__file__).parents[3]
STAND_IN = Path(__file__).with_name("nccl-tests-stand-in")
PLAIN = (
    *("BASE_IMAGE=embedded", "NSYS_SOURCE=debian", "INSTALL_CARRIER=false"),
    *("INSTALL_TORCH=none", "TORCH_URL="),
)
FULL = (
    *("INSTALL_MPI=true", "INSTALL_EFA=true", "EFA_SOURCE=distro", "INSTALL_TESTS=true"),
    *(f"NCCL_TESTS_URL={STAND_IN}", "NCCL_TESTS_VERSION=stand-in", "NCCL_TESTS_COMMIT="),
    "CUDA_ARCHS=90",
)
"""MPI, EFA and TESTS on, of sources that any machine with a mirror of its distribution has."""

PIP = ("python3-pip",)
OF_EFA = ("gnupg", "environment-modules", "tcl")
"""What the stages install for themselves where the base lacks it."""


def decide(chosen: Settings, tools: Sequence[str] = ()) -> auto.Decided:
    """Decide the settings, and make the embedded base, with these packages of the distribution.

    The engine keeps a base with tools for the next build. On the base alone each build installs
    its tools and removes them again: 12 s of CPU for pip, 8 s for gnupg and tcl.
    """
    decided = process.drive(auto.with_base(process.drive(auto.decide_settings(chosen))))
    if not tools:
        return decided
    base = f"gpu-profile-test-{tools[0]}-base"
    install = f"apt-get update && apt-get install --yes --no-install-recommends {' '.join(tools)}"
    words = ("docker", "build", "--quiet", "--network=host", f"--tag={base}", "-")
    lines = f"FROM {decided.settings.base_image}\nRUN {install}\n"
    made = process.run(Command(argv=words, stdin=lines))
    assert made.returncode == 0, made.stderr
    settings = dataclasses.replace(decided.settings, base_image=base)
    return dataclasses.replace(decided, settings=settings)


def build(
    directory: Path,
    name: str,
    *overrides: str,
    apt_preferences: str = "",
    tools: Sequence[str] = (),
) -> BuildLog | None:
    """Build an image of that name: None where it was built, otherwise the log of the failure."""
    settings = load_settings(directory / ".env", {}, (*PLAIN, f"IMAGE={name}", *overrides))
    decided = decide(settings, tools)
    options = image.BuildxOptions(root=ROOT, plain=True, apt_preferences=apt_preferences)
    result = process.run(
        image.make_build_command(decided, process.drive(downloads.probe_downloads()), options)
    )
    log = BuildLog()
    for line in result.stderr.splitlines():
        log.feed(line)
    return log if result.returncode else None


def why(log: BuildLog | None) -> str:
    return "" if log is None else str(log.failure(1))


def assert_checked(name: str, off: set[str]) -> None:
    """Every check of the image passes; those of parts that are off have nothing to check."""
    results = {check.stem: in_container(name, f"/test.d/{check.name}") for check in CHECKS}
    failed = {
        check: last_line(result)
        for check, result in results.items()
        if result.returncode not in (0, NOT_APPLICABLE)
    }
    assert failed == {}
    left_out = {check for check, result in results.items() if result.returncode == NOT_APPLICABLE}
    assert off <= left_out
