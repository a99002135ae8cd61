"""Closing, the base of classes that a `with` statement closes."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar

Self = TypeVar("Self", bound="Closing")


class Closing(ABC):
    """Gives a class the methods of a `with` statement, which calls `close` at its end."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Release what the object holds."""
