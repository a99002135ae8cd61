"""Measure an image's size by component. Each layer is one component."""

from dataclasses import dataclass

from gpu_profile.command import ENGINE, Command, Steps, make_command, make_engine_command
from gpu_profile.engine.engine_answers import make_engine_error
from gpu_profile.image.dockerfile import LAYERS
from gpu_profile.table import Column, Table

_LARGEST = 15
_COPY = "COPY /out/ /"
_BASE_SCRIPT = "RUN bash /mnt/setup.sh"
_OURS = ("RUN python3 /mnt/final/merge.py", "COPY Container-Root/")


@dataclass(frozen=True, kw_only=True)
class SizePart:
    """The bytes that one build step added."""

    name: str
    size: int


def measure_size(image: str) -> Steps[tuple[Table, Table]]:
    """Return tables of bytes by component and of the largest files.

    Raises ToolError without the image.
    """
    history = yield history_command(image)
    if history.returncode:
        raise make_engine_error(history, f"reading {image}")
    label = yield make_command(
        *(ENGINE, "image", "inspect", "--format"),
        *(f'{{{{index .Config.Labels "{LAYERS}"}}}}', image),
    )
    files_result = yield files_command(image)
    parts = parse_history(history.stdout, tuple(label.stdout.split()))
    return by_component(parts), largest_files(files_result.stdout)


def history_command(image: str) -> Command:
    """Return the command that lists the bytes and the instruction of each layer."""
    form = "{{.Size}}\t{{.CreatedBy}}"
    return make_engine_command("history", "--no-trunc", "--human=false", "--format", form, image)


def files_command(image: str) -> Command:
    """Return the command that lists the largest files of an image, in bytes."""
    # -xdev: /proc and /sys are no files of the image.
    line = f"find / -xdev -type f -printf '%s %p\\n' | sort -rn | head -n {_LARGEST}"
    return make_engine_command("run", "--rm", "--network=none", image, "sh", "-c", line)


def parse_history(text: str, components: tuple[str, ...]) -> tuple[SizePart, ...]:
    """Return the bytes by step. `components` are those of the image's layers, lowest first."""
    lines = [line.partition("\t") for line in reversed(text.splitlines())]
    steps = [(int(size), what) for size, _, what in lines if size.isdecimal()]
    names = iter(components)
    sizes: dict[str, int] = {"base image": 0}
    for size, what in steps:
        name = _name_of(what)
        name = next(names, "component") if name == _COPY else name
        sizes[name] = sizes.get(name, 0) + size
    return tuple(SizePart(name=name, size=size) for name, size in sizes.items())


def _name_of(what: str) -> str:
    if what.startswith(_COPY):
        return _COPY
    if what.startswith(_BASE_SCRIPT):
        return "common packages"
    return "entrypoints and manifest" if what.startswith(_OURS) else "base image"


def sum_gain(parts: tuple[SizePart, ...]) -> int:
    """Return the bytes that the image has beyond its base."""
    return sum(part.size for part in parts if part.name != "base image")


def by_component(parts: tuple[SizePart, ...]) -> Table:
    """Return a table of bytes and percent of the image, one row a component."""
    total = sum(part.size for part in parts)
    rows = [
        (part.name, part.size, _compute_size_share(part.size, total)) for part in parts if part.size
    ]
    rows += [("over the base image", sum_gain(parts), _compute_size_share(sum_gain(parts), total))]
    rows += [("the image", total, 100.0)]
    columns = (Column("Part"), Column("Size", "bytes"), Column("Share", "%"))
    return Table("image-size", columns, tuple(rows))


def _compute_size_share(size: int, total: int) -> float:
    return round(100 * size / total, 1) if total else 0.0


def largest_files(text: str) -> Table:
    """Return the largest files. Each line of `text` has a file's bytes and its path."""
    lines = (line.partition(" ") for line in text.splitlines())
    rows = tuple((path, int(size)) for size, _, path in lines if size.isdecimal())
    return Table("largest files", (Column("File"), Column("Size", "bytes")), rows)
