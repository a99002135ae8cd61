"""Ask the machine of a job about itself, through the scripts of Container-Root/agent."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from gpu_profile.command import Command, Result, Steps
from gpu_profile.job import Job
from gpu_profile.launcher import LauncherDefaults
from gpu_profile.launchers.agent import job_directory
from gpu_profile.nsys.help_answer import read_answer


class Scripted(LauncherDefaults, ABC):
    """Base of launchers that ask by running our scripts on the job's machine.

    Implement `script`, `runs` and `named_nsys`. Override `check_result` to turn a failure into a
    better error.
    """

    @property
    @abstractmethod
    def runs(self) -> str:
        """The directory of our runs on that machine, such as `.gpu-profile`."""

    @property
    @abstractmethod
    def named_nsys(self) -> str:
        """The path of nsys that settings name; empty means the newest copy found."""

    @abstractmethod
    def script(self, name: str, *argv: str) -> Command:
        """Return the command that runs a script of Container-Root/agent that imports no sibling."""

    def check_result(self, result: Result) -> Result:
        """Return the result. A launcher may raise an error here that explains a failure better."""
        return result

    def gpus(self) -> Steps[int | None]:
        result = yield self.script("machine_facts.py", "--gpus")
        return int(job_directory.parse_answer(self.check_result(result), "counting GPUs"))

    def facts(self) -> Steps[Mapping[str, Any]]:
        """Return the JSON of machine_facts.py: GPUs, CPUs, free bytes, capabilities, …"""
        result = yield self.script("machine_facts.py", f"--directory={self.runs}")
        return job_directory.parse_facts(self.check_result(result), "looking at the machine")

    def copies(self) -> Steps[Mapping[str, Any]]:
        """Return `{"found": […], "chosen": PATH}`: the copies of nsys on that machine."""
        result = yield self.find_nsys("--json")
        return job_directory.parse_facts(self.check_result(result), "looking for nsys")

    def probe(self, job: Job) -> Steps[str]:
        return read_answer(self.check_result((yield self.find_nsys("profile", "--help"))))

    def find_nsys(self, *argv: str) -> Command:
        """Return the command that calls the job's nsys with these arguments.

        `--json` lists all copies of nsys instead.
        """
        return self.script("find_nsys.py", *self.nsys_flags(), *argv)

    def nsys_flags(self) -> tuple[str, ...]:
        """Return `--nsys=PATH` if settings name a copy of nsys."""
        return (f"--nsys={self.named_nsys}",) if self.named_nsys else ()
