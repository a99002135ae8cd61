"""What `host` and `ssh` do alike: a job of one machine, without a container or a scheduler."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from gpu_profile.command import Steps
from gpu_profile.declared.check import Check
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.doctor.host import check_host, list_lacking
from gpu_profile.engine.carried_directory import bring_directory
from gpu_profile.job import TOOLS, Job, Tool
from gpu_profile.launcher import Carrying, ImageFrom
from gpu_profile.launchers.agent.job_directory import Agent
from gpu_profile.launchers.agent.scripts import Scripted
from gpu_profile.nsys.help_answer import read_answer


@dataclass(frozen=True, kw_only=True)
class OneHost(Scripted, ABC):
    """Base of launchers whose jobs run on one machine itself. `nsys` empty finds the newest."""

    images: ClassVar[ImageFrom] = ImageFrom.NOWHERE
    possible_images: ClassVar[frozenset[ImageFrom]] = frozenset({ImageFrom.NOWHERE})
    one_node: ClassVar[bool] = True
    drills: ClassVar[bool] = True
    carrying: ClassVar[Carrying] = Carrying.COPY
    tools: ClassVar[frozenset[Tool]] = frozenset(TOOLS)
    nsys: str = ""
    carrier_image: ImageRef | None = None
    """The image of ours on this machine's engine whose nsys --carry brings."""
    agent: Agent = field(default_factory=lambda: Agent(python=sys.executable))

    @property
    @abstractmethod
    def carried_below(self) -> str:
        """The directory of the machine that gets the carrier, such as `.gpu-profile`."""

    def carry(self, job: Job, *, wanted: bool) -> Steps[Job]:
        """Return the job with nsys in a directory that is copied to the machine, if wanted."""
        place = self.host()
        if not wanted or place is None or self.carrier_image is None:
            return job
        where = (place, self.agent, self.carrier_image, self.carried_below)
        return replace(job, carrier=(yield from bring_directory(*where)))

    def probe(self, job: Job) -> Steps[str]:
        if job.carrier is None:
            return (yield from super().probe(job))
        question = ("profile", "--help")
        answer = yield self.script("find_nsys.py", f"--nsys={job.carrier.nsys}", *question)
        return read_answer(self.check_result(answer))

    @property
    def named_nsys(self) -> str:
        return self.nsys

    def doctor(self) -> Steps[tuple[Check, ...]]:
        return (yield from check_host(self))

    def lacking(self) -> Steps[Mapping[str, str]]:
        return list_lacking((yield from self.facts()))


def name_nsys(job: Job, named: str) -> str:
    """Return the path of the job's nsys: the carrier's, or what settings name; "" if none."""
    return job.carrier.nsys if job.carrier else named
