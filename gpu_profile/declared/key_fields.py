"""Settings as fields of a frozen dataclass: each field is a key of .env with a type of its own."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin

from gpu_profile.declared.key import Key
from gpu_profile.declared.kinds import KeyKind

_LOWER = {"http_proxy", "https_proxy", "no_proxy"}
T = TypeVar("T", bound="LauncherSettings")


def make_field(
    default: object, doc: str, kind: KeyKind | None = None, choices: tuple[str, ...] = ()
) -> Any:  # noqa: ANN401 - dataclasses.field's own type
    """Return a field that is a setting. Without `kind`, the field's type decides: bool, Literal."""
    return dataclasses.field(default=default, metadata={"doc": doc, "kind": kind, "of": choices})


def make_words_field(doc: str) -> Any:  # noqa: ANN401 - as above
    """Return a field for options that are quoted as in a shell."""
    return make_field("", doc, "words")


def list_keys(of: type, prefix: str = "") -> tuple[Key, ...]:
    """Return the settings of a dataclass: `partition` with the prefix SLURM is SLURM_PARTITION."""
    return tuple(
        Key(
            name=_name_key(field.name, prefix),
            kind=field.metadata["kind"] or _get_kind(field.type),
            default=field.default if isinstance(field.default, bool) else str(field.default),
            choices=_list_choices(field),
            doc=field.metadata["doc"],
        )
        for field in dataclasses.fields(of)
        if "doc" in field.metadata
    )


def _name_key(field: str, prefix: str) -> str:
    name = f"{prefix}_{field}" if prefix else field
    return name if name in _LOWER else name.upper()


def _list_choices(field: "dataclasses.Field[Any]") -> tuple[str, ...]:
    return get_args(field.type) if get_origin(field.type) is Literal else field.metadata["of"]


def _get_kind(of: object) -> KeyKind:
    return "bool" if of is bool else "choice" if get_origin(of) is Literal else "str"


@dataclasses.dataclass(frozen=True, kw_only=True)
class LauncherSettings:
    """The settings of a launcher, whose class adds the prefix and the fields.

    With the prefix SLURM the field `partition` is SLURM_PARTITION.
    """

    prefix: ClassVar[str]

    @classmethod
    def make_keys(cls) -> tuple[Key, ...]:
        """Return the settings for `keys` of the launcher's row."""
        return list_keys(cls, cls.prefix)

    @classmethod
    def read(cls: type[T], values: Mapping[str, str | bool]) -> T:
        """Return the values under the fields' names. A setting that is missing has its default."""
        names = {_name_key(field.name, cls.prefix): field.name for field in dataclasses.fields(cls)}
        return cls(**{names[key]: value for key, value in values.items() if key in names})
