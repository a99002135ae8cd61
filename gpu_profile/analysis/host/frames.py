"""A function of a sampled stack, and whose code it is."""

import re
from dataclasses import dataclass

_MOST_LETTERS = 300
_LIBRARY = re.compile(r"/(site|dist)-packages/|/lib(64)?/python3|^<frozen|/lib/|\.so(\.|$)")
_PYTHON = re.compile(r"/lib(64)?/python3[^/]*/(?!(site|dist)-packages/)|^<frozen")
_PACKAGE = re.compile(r".*/(site|dist)-packages/")
_LOADER = re.compile(
    r"torch/utils/data/|/webdataset/|/nvidia/dali/|/grain/|/datasets/|/streaming/|tensorflow/\S*data"
)


@dataclass(frozen=True)
class Frame:
    """One function of a stack; `line` is 0 if unknown."""

    function: str
    file: str
    line: int = 0

    def __str__(self) -> str:
        """For example `collate (collate.py:9)`, without the directory, which may contain a user's
        name.
        """
        place = f"{self.name_of_file}:{self.line}" if self.line else self.name_of_file
        return f"{self.function} ({place})" if place else self.function

    @property
    def name_of_file(self) -> str:
        """`train.py`; for a package's `__init__.py` with the package: `sympy.__init__.py`.

        The parts are joined by a dot because a slash would look like a path.
        """
        parts = self.file.split("/")
        return ".".join(parts[-2:] if parts[-1] == "__init__.py" else parts[-1:])

    def to_text_with_package(self) -> str:
        """For example `format_stack (torch.fx.traceback.py:190)`: names of files repeat between
        packages.
        """
        inside = _PACKAGE.sub("", self.file)
        if inside == self.file:
            return str(self)
        return str(Frame(self.function, inside.replace("/", "."), self.line))

    @property
    def of_python(self) -> bool:
        """Whether the file is of Python's standard library."""
        return bool(_PYTHON.search(self.file))

    @property
    def of_user(self) -> bool:
        """Whether the file is neither Python's own nor an installed library's."""
        return bool(self.file) and not _LIBRARY.search(self.file)

    @property
    def of_loader(self) -> bool:
        """Whether the file is of a library that loads data: PyTorch's DataLoader, webdataset,
        DALI, grain.
        """
        return bool(_LOADER.search(self.file))


Stack = tuple[Frame, ...]


def make_printable(text: str) -> str:
    """The text without control characters, which would act on a terminal; the job controls the
    text.
    """
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_MOST_LETTERS])
