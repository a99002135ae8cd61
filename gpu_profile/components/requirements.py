"""The Python packages of the user's own program, from a requirements file."""

import hashlib
import re
from pathlib import Path

from gpu_profile.components.component import Component
from gpu_profile.declared.key import Key, Values
from gpu_profile.errors import SettingsError

SECRET = "requirements"
"""The id of the build's secret that holds the file: its size is not limited as ARG's is (128 KiB),
and its directory need not be sent."""
_MOST_BYTES = 500 * 1024
"""BuildKit's limit for a secret:
https://github.com/moby/buildkit/blob/master/session/secrets/secretsprovider/store.go"""
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*\s*(?:\[[^\]]*\])?\s*(?:$|[@(<>=!~;\s])")


def read_requirements(path_text: str) -> str:
    """Return the text of a requirements file that a build can install from package indexes.

    Raises SettingsError for what the build would not have, such as `-e .` and `-r other.txt`, and
    for options: an index is set by pip's own configuration, which the build gets as a secret.
    """
    path = Path(path_text).expanduser()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SettingsError(f"REQUIREMENTS {path}: {reason}", "Give a requirements file") from error
    if len(text.encode()) > _MOST_BYTES:
        raise SettingsError(f"REQUIREMENTS {path} is larger than 500 KiB", "Split it") from None
    joined = re.sub(r"\\\n\s*", " ", text)
    for line in joined.splitlines():
        _check_line(path, line.strip())
    return text


def _check_line(path: Path, line: str) -> None:
    if not line or line.startswith("#"):
        return
    if line.startswith("-"):
        what = f"REQUIREMENTS {path}: {line.split()[0]} is an option"
        raise SettingsError(
            what, "Name packages only; pip.conf of this machine is used by the build"
        )
    if not _REQUIREMENT.match(line) or re.search(r"@\s*(?:file:|\.|/)", line):
        name = line.split()[0]
        raise SettingsError(f"REQUIREMENTS {path}: {name} is not a package of an index", _LOCAL)
    if re.search(r"://[^/\s]*@", line):
        raise SettingsError(f"REQUIREMENTS {path} holds a password in a URL", "Use pip.conf for it")


_LOCAL = "Mount your own code with `profile --mount .`, and list what it imports"


def _list_arguments(values: Values) -> dict[str, str]:
    """Return the hash of the file's text: another text makes BuildKit run the stage again."""
    text = read_requirements(str(values["REQUIREMENTS"]))
    return {"REQUIREMENTS": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"}


COMPONENT = Component(
    number=25,
    name="requirements",
    doc="Python packages of your own program",
    is_enabled=lambda values: bool(values["REQUIREMENTS"]),
    toggle="REQUIREMENTS",
    keys=(
        Key(
            name="REQUIREMENTS",
            kind="path",
            doc="A requirements file of your program's packages; they are installed beside PyTorch",
        ),
    ),
    args=_list_arguments,
    needs=("torch",),
    secrets=(SECRET,),
)
