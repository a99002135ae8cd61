"""Builds against the ancestor's recipe shape, in one run on the same base and mirrors: seconds and
bytes.

    .venv/bin/python bench/image_bench.py [--set KEY=value]… [--no-ancestor]

Cold is without any cached step; our stages keep downloaded packages in cache mounts, which count
for us from the second build on, as they do for users: `docker builder prune -af` first for a start
from nothing. Then each toggle is flipped, with its own stage never built before, and an entrypoint
is edited. The ancestor's shape is one RUN after an ADD of everything, as aws-do-eks' gpu-profile
has it: whatever changes, all of it is built again.
"""

import argparse
import dataclasses
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from gpu_profile import process  # noqa: E402
from gpu_profile.command import Command, make_command  # noqa: E402
from gpu_profile.formats.table_formats import to_text  # noqa: E402
from gpu_profile.image import auto  # noqa: E402
from gpu_profile.image import build as image  # noqa: E402
from gpu_profile.image import downloads as machine  # noqa: E402
from gpu_profile.image.auto import Decided  # noqa: E402
from gpu_profile.image.build import BuildxOptions  # noqa: E402
from gpu_profile.settings import settings  # noqa: E402
from gpu_profile.settings.settings import Settings  # noqa: E402
from gpu_profile.table import Column, Table  # noqa: E402

TESTS: dict[str, bool | str] = {
    "INSTALL_TESTS": True,
    "NCCL_TESTS_URL": str(ROOT / "tests" / "image" / "nccl-tests-stand-in"),
    "NCCL_TESTS_VERSION": "stand-in",
    "NCCL_TESTS_COMMIT": "",
}
"""With a checkout of a few lines: what nccl-tests itself takes is its compiler's time."""
FLIPS: dict[str, tuple[str, dict[str, bool | str]]] = {
    "MPI off": ("mpi", {"INSTALL_MPI": False}),
    "MPI on": ("mpi", {}),
    "EFA on (distro)": ("efa", {"INSTALL_EFA": True, "EFA_SOURCE": "distro"}),
    "torch off": ("torch", {"INSTALL_TORCH": "none"}),
    "torch on": ("torch", {}),
    "TESTS on (a stand-in)": ("nccl,nccl-tests", TESTS),
    "TESTS off": ("nccl,nccl-tests", {}),
    "TESTS on again": ("", TESTS),
}
GOAL_FLIP, GOAL_SIZE = 0.1, 0.5
ANCESTOR = """\
FROM {base}
ADD Container-Root /opt/container-root/
ENV DEBIAN_FRONTEND=noninteractive
RUN --mount=type=secret,id=ca_bundle --mount=type=secret,id=pip_conf \\
    export PIP_CONFIG_FILE=/run/secrets/pip_conf PIP_CERT=/run/secrets/ca_bundle; \\
    apt-get update && apt-get install -y curl git wget python3 python3-pip build-essential \\
    {nsys} \\
    {torch} \\
    {mpi} \\
    {efa} \\
    && pip install --break-system-packages nvtx=={nvtx}
CMD ["/bin/sh", "-c", "while true; do sleep 1; done"]
"""
"""On the embedded base: the packages that our stages take, as the ancestor takes them (with all
that apt recommends, nsys with its GUI, compilers and package lists left in)."""


@dataclass(frozen=True)
class Bench:
    """`root` is a copy of the context, so that its files can be edited."""

    root: Path
    base: Settings
    downloads: machine.Downloads

    def ours(self, changes: dict[str, bool | str], *extra: str) -> Command:
        component = {**self.base.component, **changes}
        chosen = dataclasses.replace(self.base, component=component, build_opts=" ".join(extra))
        options = BuildxOptions(root=self.root, plain=True)
        return image.make_build_command(
            Decided(settings=chosen, decisions={}), self.downloads, options
        )

    def ancestor(self, *extra: str, efa: bool = False) -> Command:
        file = self.root / "Dockerfile.ancestor"
        file.write_text(
            ANCESTOR.format(
                base=self.base.base_image,
                nsys="nsight-systems",
                torch="python3-torch python3-numpy",
                mpi="openmpi-bin libopenmpi-dev openssh-server",
                efa="libfabric-bin libfabric-dev rdma-core" if efa else "",
                nvtx=self.base.component["NVTX_VERSION"],
            )
        )
        made = self.ours({})
        secrets = [word for word in made.argv if word.startswith("--secret=")]
        return Command(
            argv=(
                *("docker", "buildx", "build", f"--file={file}", "--tag=image-bench:ancestor"),
                *("--progress=plain", "--provenance=false", "--load", *secrets, *extra),
                str(self.root),
            ),
            env=made.env,
            secrets=made.secrets,
        )


def seconds(build: Command) -> float:
    started = time.perf_counter()
    result = process.run(build)
    if result.returncode:
        sys.exit(f"{build}\n{result.stderr[-3000:]}")
    return time.perf_counter() - started


def size(name: str) -> int:
    told = process.run(make_command("docker", "image", "inspect", "--format={{.Size}}", name))
    return int(told.stdout)


def edit(root: Path) -> None:
    file = root / "Container-Root" / "startup.sh"
    with file.open("a") as script:
        script.write(f"# {time.time()}\n")


def ours(bench: Bench) -> Iterator[tuple[str, float]]:
    yield "cold", seconds(bench.ours({}, "--no-cache"))
    yield "nothing changed", seconds(bench.ours({}))
    for name, (stage, changes) in FLIPS.items():
        anew = [f"--no-cache-filter={stage}"] if stage else []
        yield name, seconds(bench.ours(changes, *anew))
        seconds(bench.ours({}))
    edit(bench.root)
    yield "entrypoint edited", seconds(bench.ours({}))


def ancestor(bench: Bench) -> Iterator[tuple[str, float]]:
    yield "cold", seconds(bench.ancestor("--no-cache"))
    yield "nothing changed", seconds(bench.ancestor())
    yield "EFA on (distro)", seconds(bench.ancestor(efa=True))
    seconds(bench.ancestor())
    edit(bench.root)
    yield "entrypoint edited", seconds(bench.ancestor())


def times(seconds: dict[str, float], other: dict[str, float]) -> Table:
    columns = (
        *(Column("Build"), Column("Ours", "s"), Column("Of cold", decimals=3)),
        *(Column("Goal"), Column("Ancestor", "s"), Column("Ours of ancestor", decimals=3)),
    )
    rows = tuple(
        (
            name,
            round(took, 1),
            round(took / seconds["cold"], 3),
            "" if name == "cold" else GOAL_FLIP,
            round(other[name], 1) if name in other else None,
            round(took / other[name], 3) if name in other else None,
        )
        for name, took in seconds.items()
    )
    return Table("seconds", columns, rows)


def sizes(bench: Bench, *, with_ancestor: bool) -> Table:
    base = size(bench.base.base_image)
    names = {"ours": str(bench.base.image_ref)}
    names |= {"ancestor": "image-bench:ancestor"} if with_ancestor else {}
    gains = {who: size(name) - base for who, name in names.items()}
    top = gains.get("ancestor", gains["ours"])
    rows = tuple(
        (who, round((gain + base) / 1e6), round(gain / 1e6), round(gain / top, 3))
        for who, gain in gains.items()
    )
    names_of = ("Image", "Size", "Over base", f"Of ancestor's (goal {GOAL_SIZE})")
    columns = tuple(Column(n, "MB" if n in ("Size", "Over base") else "") for n in names_of)
    return Table("sizes", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=value")
    parser.add_argument("--no-ancestor", action="store_true")
    flags = parser.parse_args()
    words = ["BASE_IMAGE=embedded", "NSYS_SOURCE=debian", "INSTALL_TORCH=cpu", "TORCH_URL="]
    chosen = settings.load_settings(
        Path("/nonexistent/.env"), {}, [*words, "IMAGE=image-bench", "VERSION=ours", *flags.set]
    )
    base = process.drive(auto.with_base(process.drive(auto.decide_settings(chosen)))).settings
    downloads = process.drive(machine.probe_downloads())
    with tempfile.TemporaryDirectory(prefix="image-bench-") as directory:
        root = Path(directory)
        shutil.copytree(ROOT / "Container-Root", root / "Container-Root")
        bench = Bench(root, base, downloads)
        seconds = dict(ours(bench))
        other = {} if flags.no_ancestor else dict(ancestor(bench))
        print(to_text(times(seconds, other)))
        print(to_text(sizes(bench, with_ancestor=not flags.no_ancestor)))


if __name__ == "__main__":
    main()
