"""The carrier of a job: a directory with nsys, a Python and our agent, for images without them.

A job that torch.profiler records needs our agent alone, which the image's own Python runs.
"""

from dataclasses import dataclass

CARRIED_TO = "/opt/gpu-profile"
"""Where a container or pod sees the directory; our image has it in the same place."""


@dataclass(frozen=True, kw_only=True)
class Carrier:
    """What is carried to a job.

    `source`: where the job's engine takes it from, such as the volume `gpu-profile-0f3c…` in Docker
    or the address of our image in Kubernetes. `digest`: the SHA-256 of all its files. `glibc`: the
    oldest one that its programs run with. `directory`: where the job sees it.
    """

    source: str
    digest: str = ""
    glibc: str = ""
    directory: str = CARRIED_TO
    is_agent: bool = False
    """Whether `source` is the directory of our agent on this machine, and nothing else comes."""

    @property
    def python(self) -> str:
        if self.is_agent:
            return "python3"
        return f"{self.directory}/carrier/bin/python3"

    @property
    def nsys(self) -> str:
        return f"{self.directory}/carrier/bin/nsys"

    @property
    def checker(self) -> str:
        """The script that says whether the carrier works in a container or on a machine."""
        return f"{self.directory}/agent/carried.py"

    @property
    def agent(self) -> str:
        return f"{self.directory}/agent"

    @property
    def start(self) -> tuple[str, ...]:
        """The words that start the Python.

        `-E`: an image's PYTHONHOME and PYTHONPATH are of its own Python.
        """
        return (self.python,) if self.is_agent else (self.python, "-E")

    @property
    def profile(self) -> tuple[str, ...]:
        """The words in front of profile.py's options, in place of `python3 /profile.py`."""
        return (*self.start, f"{self.agent}/profile_ranks.py", *self.nsys_words)

    @property
    def nsys_words(self) -> tuple[str, ...]:
        """The option that names nsys to our agent; none without one."""
        return () if self.is_agent else (f"--nsys={self.nsys}",)
