"""Find the Python packages of the image, what they need included, each with version and SHA-256.

uv resolves for the image's Python and C library, not for those of this machine
(docs.astral.sh/uv/pip/compile). It reads the metadata of wheels only: PyTorch's CUDA build takes
seconds, not gigabytes.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_profile.command import Command, Result
from gpu_profile.errors import ToolError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True, kw_only=True)
class Target:
    """The Python that packages are for: its version, such as 3.13, and glibc's minor version."""

    python: str
    glibc: int = 28
    machine: str = "x86_64"


def make_resolve_command(
    packages: tuple[str, ...],
    target: Target,
    environment: Mapping[str, str],
    *,
    index: str = "",
    no_deps: bool = False,
) -> Command:
    """Return the uv command. Its output is a pylock.toml (PEP 751) of wheels that fit the target.

    `index` replaces the machine's index. `no_deps`: without what the packages need.
    """
    env = dict(environment)
    if index:
        env |= {"UV_DEFAULT_INDEX": index, "UV_INDEX": ""}
    scope = ["--no-deps"] if no_deps else []
    return Command(
        argv=(
            *(sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet", "--no-header"),
            *("--no-config", "--no-cache", "--no-python-downloads", f"--python={sys.executable}"),
            # pip's own strategy: uv's would take the first index that has the name, in whatever
            # version.
            *("--only-binary=:all:", "--index-strategy=unsafe-best-match"),
            *scope,
            f"--python-version={target.python}",
            f"--python-platform={target.machine}-manylinux_2_{target.glibc}",
            "--format=pylock.toml",
        ),
        stdin="".join(f"{package}\n" for package in packages),
        env=env,
        secrets=frozenset(env),
    )


def parse_packages(result: Result, names: tuple[str, ...]) -> dict[str, str]:
    """Return `NAME==VERSION --hash=sha256:…` by name. Raises ToolError with uv's reason."""
    what = ", ".join(names)
    if result.returncode:
        reason = re.sub(r"\s+", " ", result.stderr.strip().removeprefix("error: "))
        raise ToolError(f"no wheels of {what} for this image: {reason}", "See their _VERSION keys")
    lines = {}
    for package in tomllib.loads(result.stdout).get("packages", ()):
        all_hashes = (wheel.get("hashes", {}) for wheel in package.get("wheels", ()))
        hashes = sorted({str(known["sha256"]) for known in all_hashes if "sha256" in known})
        if not hashes:
            raise ToolError(
                f"the index gives no sha256 for {package['name']}",
                "Use an index that does: PyPI and its mirrors do",
            )
        words = [f"{package['name']}=={package['version']}"]
        lines[str(package["name"])] = " ".join([*words, *(f"--hash=sha256:{h}" for h in hashes)])
    return lines


def join_packages(lines: Mapping[str, str]) -> str:
    """Return the setting's text: the packages on one line, sorted by name."""
    return " ".join(line for _, line in sorted(lines.items()))


def split_packages(text: str) -> list[str]:
    """Return a line for each package of the setting's text, as pip's requirements have them."""
    return re.findall(r"\S+(?: --\S+)*", text)


def version_of(line: str) -> str:
    """Return the version in `NAME==VERSION --hash=…`."""
    return line.partition("==")[2].partition(" ")[0]
