"""What `host` and `ssh` do alike: a job of one machine, without a container or a scheduler."""

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from gpu_profile.command import Steps
from gpu_profile.declared.check import Check
from gpu_profile.doctor.host import check_host, list_lacking
from gpu_profile.launcher import ImageFrom
from gpu_profile.launchers.agent.scripts import Scripted


@dataclass(frozen=True, kw_only=True)
class OneHost(Scripted, ABC):
    """Base of launchers whose jobs run on one machine itself. `nsys` empty finds the newest."""

    images: ClassVar[ImageFrom] = ImageFrom.NOWHERE
    possible_images: ClassVar[frozenset[ImageFrom]] = frozenset({ImageFrom.NOWHERE})
    one_node: ClassVar[bool] = True
    nsys: str = ""

    @property
    def named_nsys(self) -> str:
        return self.nsys

    def doctor(self) -> Steps[tuple[Check, ...]]:
        return (yield from check_host(self))

    def lacking(self) -> Steps[Mapping[str, str]]:
        return list_lacking((yield from self.facts()))
