"""Find and hide folders; the names of files stay."""

import re
from collections.abc import Iterable

PATH = "<path>"

_ROOT_FOLDERS = (
    "home Users root tmp opt usr var mnt data scratch workspace fsx efs lustre gpfs nfs srv etc "
    "wd private media shared work projects proj run proc sys dev lib lib64 bin sbin boot venv"
)
ROOTS = frozenset(_ROOT_FOLDERS.split())
_FILE = re.compile(
    r"[^/\\]+\.(?:py[cw]?|so(?:\.\d+)*|cu|cc|cpp|c|h|hpp|log|sqlite|nsys-rep|qdstrm|sh|ko|dll|exe)$"
)
_PART = r"(?:[\w.+@%~,-]|<(?:secret|user|host\d*)>)+"
_ANY_PATH = rf"(?<![\w.<>/-])~?/(?!/)(?:(?:{_PART}/)+{_PART}/?|(?:{_PART}/)+|[\w.+@%~,-]{{3,}})"
_WINDOWS = (
    r"\b[A-Za-z]:\\{1,2}(?:[^\\\s\"<>|]+\\{1,2})*[^\\\s\"<>|]*"
    r"|(?<![\w\\])\\{2}[\w.$-]+(?:\\[^\\\s\"<>|]+)+"
)
_CODE = "py|pyx|ipynb|cu|cuh|cc|cpp|cxx|c|h|hpp|jl|rs|go|ts|js|sh"
_SOURCE = rf"(?<![\w.+@%~,<>/-])(?:~|\.{{1,2}})?/?(?:{_PART}/)+{_PART}\.(?:{_CODE})(?![\w.-])"
"""A source file in any folder, e.g. `/workspace/app/model.py` or `src/model.py`."""
_VARIABLE = rf"\$(?:[A-Za-z_]\w*|\{{\w+\}})(?:/{_PART})+/?"
_HOME_OF = r"(?<![\w:~/])~[a-z_][\w.-]*(?:/[\w./-]*)?(?=$|[\s\"',;:)])"
"""`~bob/x`. With a colon before it, it is a C++ destructor: `Foo::~Foo`."""
# A folder's name may hold spaces. Four words, or every slash of a sentence would be a folder.
_SPACES = rf"(?:(?: [\w.+@%~,-]+){{1,4}}/(?:{_PART}/)*(?:{_PART})?)?"

_PACKAGES = (
    "torch torchvision torchaudio triton jax jaxlib flax tensorflow keras numpy scipy lightning"
    " pytorch_lightning transformers accelerate datasets webdataset nvidia grain streaming"
)
_PUBLIC_TAIL = re.compile(
    r"/lib(?:64)?/python3[\d.]*/(?:(?:site|dist)-packages/"
    rf"(?:{'|'.join(_PACKAGES.split())})/.*|(?!(?:site|dist)-packages/).*)\.py$"
)
"""The part of a path that Python or a public library names, which findings tell code apart by."""
_LIBRARY = re.compile(r"/((?:site|dist)-packages)/")
_STRIPPED = re.compile(rf"{PATH}(?:/(?:(?:site|dist)-packages/)?[^/]*|{_PUBLIC_TAIL.pattern})")


def make_patterns(roots: frozenset[str]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The patterns of paths in names of work, and in facts about a machine.

    `roots`: first folders that are known. In facts any word with a slash before it is a path.
    """
    folders = "|".join(map(re.escape, sorted(roots | ROOTS)))
    # From the first of several slashes: 16 kB of slashes took 4.5 s otherwise.
    rooted = (
        rf"{PATH}/[^\s\"'<>]*|~?(?<!/)/+(?:{folders}|(?i:home|users))(?:/+{_PART})+/?{_SPACES}"
        rf"|~/{_PART}[\w./-]*|{_HOME_OF}|{_VARIABLE}|{_SOURCE}|{_WINDOWS}"
    )
    return re.compile(rooted), re.compile(f"{rooted}|{_ANY_PATH}")


def hide_paths(text: str, pattern: re.Pattern[str]) -> str:
    """The text with folders replaced by `<path>`."""
    return pattern.sub(_strip_folders, text) if re.search(r"[/\\~]", text) else text


def _strip_folders(match: re.Match[str]) -> str:
    """Keep the last name of a path if it is a file's name, not a folder's."""
    if _STRIPPED.fullmatch(match[0]):
        return match[0]
    # Without the ending, 180 kB of `/lib/python3` took 47 s: each one is searched to the end.
    if match[0].endswith(".py") and (public := _PUBLIC_TAIL.search(match[0])):
        return f"{PATH}{public[0]}"
    name = re.split(r"[/\\]", match[0].rstrip("/\\"))[-1]
    if not _FILE.match(name):
        return PATH
    library = _LIBRARY.search(match[0])
    return f"{PATH}/{library[1]}/{name}" if library else f"{PATH}/{name}"


def list_first_folders(texts: Iterable[str]) -> frozenset[str]:
    """The first folder of every absolute path in the texts."""
    return frozenset(
        match[1] for text in texts for match in re.finditer(r"(?<![\w.<>/])/([\w.+@-]{2,})/", text)
    )
