"""The carrier of a job: a directory with nsys, a Python and our agent, for images without them."""

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

    @property
    def python(self) -> str:
        return f"{self.directory}/carrier/bin/python3"

    @property
    def nsys(self) -> str:
        return f"{self.directory}/carrier/bin/nsys"

    @property
    def checker(self) -> str:
        """The script that says whether the carrier works in a container or on a machine."""
        return f"{self.directory}/agent/carried.py"

    @property
    def profile(self) -> tuple[str, ...]:
        """The words in front of profile.py's options, in place of `python3 /profile.py`.

        `-E`: an image's PYTHONHOME and PYTHONPATH are of its own Python.
        """
        script = f"{self.directory}/agent/profile_ranks.py"
        return (self.python, "-E", script, f"--nsys={self.nsys}")
