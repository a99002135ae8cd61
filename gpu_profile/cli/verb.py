"""Verb, a row of the table of verbs; Option, a flag; VerbOptions, the base of a verb's flags.

The flags of `gpu_profile/verbs/jobs/profile.py` are the dataclass ProfileOptions in
`gpu_profile/cli/options/jobs.py`, which imports little: `--help` needs it.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:  # its patterns take 5 ms to compile, which `--list` does not need
    from gpu_profile.declared.kinds import KeyKind

T = TypeVar("T")
V = TypeVar("V", bound="VerbOptions")


@dataclass(frozen=True)
class Option:
    """A flag. Its type is that of its default; a flag with a list may be repeated.

    `settings`: .env keys that it overrides. `of`: the launchers that have it, if not all do. A
    positional one needs no name. `kind` and `choices`: its valid texts, unless a setting's kind
    says so. `value` is what help shows for its value, where neither these nor the name say it.
    `group`: the title of the flags that it stands with in help; "" for the verb's own.
    """

    name: str
    default: bool | int | float | str | tuple[str, ...]
    doc: str
    settings: tuple[str, ...] = ()
    positional: bool = False
    of: tuple[str, ...] = ()
    kind: "KeyKind" = "str"
    choices: tuple[str, ...] = ()
    value: str = ""
    group: str = ""

    @property
    def field(self) -> str:
        """The name of the dataclass field: `dry_run` of --dry-run, `from_` of --from."""
        name = self.name.replace("-", "_")
        return f"{name}_" if iskeyword(name) else name


def make_flag(
    default: T,
    doc: str,
    *settings: str,
    kind: "KeyKind" = "str",
    choices: tuple[str, ...] = (),
    positional: bool = False,
    value: str = "",
) -> T:
    """Return the dataclass field of a flag: `delay: float = make_flag(0.0, "nsys: seconds …")`.

    Only fields made here are flags. `settings`: the .env keys that the flag overrides.
    """
    row = {"doc": doc, "settings": settings, "kind": kind, "choices": choices}
    flag: T = field(default=default, metadata={**row, "positional": positional, "value": value})
    return flag


@dataclass(frozen=True, kw_only=True)
class VerbOptions:
    """What each verb gets beside its flags: the words after `--`, and the environment."""

    words: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    group: ClassVar[str] = ""
    """The title of the flags of this class in the help of each verb that has them."""

    @classmethod
    def list_options(cls) -> tuple[Option, ...]:
        """Return the flags: one for each field that make_flag made."""
        flags: list[Any] = [field for field in fields(cls) if field.metadata]
        return tuple(
            Option(
                field.name.rstrip("_").replace("_", "-"),
                field.default,
                **field.metadata,
                group=cls._find_group(field.name),
            )
            for field in flags
        )

    @classmethod
    def _find_group(cls, name: str) -> str:
        """Return the title of the class that has this field; "" for the verb's own class."""
        bases = (base for base in reversed(cls.__mro__) if is_dataclass(base))
        owner = next(base for base in bases if name in {field.name for field in fields(base)})
        return "" if owner is cls else str(vars(owner).get("group", ""))

    @classmethod
    def from_flags(cls: type[V], flags: Mapping[str, Any]) -> V:
        """Return the options of parsed flags, whose names are those of the fields."""
        return cls(**flags)

    def value_of(self, option: Option) -> Any:  # noqa: ANN401 - a flag's own type
        return getattr(self, option.field)


@dataclass(frozen=True)
class Verb:
    """A verb. `module`.`function` runs it; the function has the verb's name with "_" for "-".

    `example`: words to type after the program's name, for help; "" is the name alone.
    """

    name: str
    module: str
    doc: str
    example: str = ""

    @property
    def takes_command(self) -> bool:
        """Whether words after `--` are its own."""
        return "after --" in self.doc

    @property
    def function(self) -> str:
        return self.name.rpartition(".")[2].replace("-", "_")

    @property
    def options_class(self) -> type[VerbOptions]:
        """The verb's flags: ImageSizeOptions in options/image.py for `image-size`."""
        folder = self.module.partition(".")[0]
        module = importlib.import_module(f"gpu_profile.cli.options.{folder}")
        words = self.function.split("_")
        options: type[VerbOptions] = getattr(
            module, "".join(map(str.capitalize, words)) + "Options"
        )
        return options

    @property
    def options(self) -> tuple[Option, ...]:
        return self.options_class.list_options()
