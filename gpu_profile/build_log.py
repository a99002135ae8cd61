"""The plain output of `docker buildx build` -> which step failed, and why."""

import re
from dataclasses import dataclass, field

from gpu_profile.errors import BuildError

_STEP = re.compile(r"#(?P<id>\d+) \[(?P<stage>[^\]]+?)(?: +\d+/\d+)?\] (?P<what>.*)")
_OUTPUT = re.compile(r"#(?P<id>\d+) \d+\.\d+ (?P<text>.*)")
_ERROR = re.compile(r"#(?P<id>\d+) ERROR: (?P<text>.*)")
_LAST = re.compile(r"ERROR: (?:failed to (?:build|solve): )*(?P<text>.*)")
_KEEP = 10

_ADVICE = (
    ("no space left on device", "Make room: `docker system prune` removes what is not used"),
    (
        r"(?i)certificate|SSL_ERROR|tls:",
        "Set CA_BUNDLE to the file of certificates that this network needs",
    ),
    ("checksum mismatch", "The file is not the one that was locked: check its _SHA256 and _URL"),
    (
        r"failed to resolve source metadata|pull access denied|manifest unknown|no such host"
        r"|failed to do request|not found: not found",
        "Set BASE_IMAGE to an image that this machine reaches, or to embedded",
    ),
    (
        r"(?i)could not resolve|cannot fetch|temporary failure|connection (?:refused|timed out)",
        "Set http_proxy and https_proxy, or a mirror for this download",
    ),
    (
        r"(?i)attestation|not supported for the docker driver",
        "That needs another builder: `docker buildx create --use`",
    ),
)


@dataclass
class BuildLog:
    """Feed it every line; after a failure it knows the step and its last lines."""

    stages: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, list[str]] = field(default_factory=dict)
    failed: str = ""
    reason: str = ""

    def feed(self, line: str) -> None:
        if match := _STEP.match(line):
            self.stages[match["id"]] = match["stage"]
        elif match := _OUTPUT.match(line):
            lines = self.outputs.setdefault(match["id"], [])
            lines.append(match["text"])
            del lines[:-_KEEP]
        elif match := _ERROR.match(line):
            self.failed, self.reason = self.failed or match["id"], match["text"]
        elif match := _LAST.match(line):
            self.reason = match["text"]

    @property
    def step(self) -> str:
        return self.stages.get(self.failed, "")

    @property
    def last_lines(self) -> tuple[str, ...]:
        """What the failed step said last, oldest first."""
        return tuple(self.outputs.get(self.failed, ()))

    def failure(self, exit_code: int) -> BuildError:
        said = next((line for line in reversed(self.last_lines) if line.strip()), self.reason)
        said = said or f"docker buildx build ended with exit code {exit_code}"
        what = f"The build failed in {self.step}: {said}" if self.step else f"No build: {said}"
        everything = "\n".join([*self.last_lines, self.reason])
        for pattern, advice in _ADVICE:
            if re.search(pattern, everything):
                return BuildError(what, advice)
        script = f"Container-Root/setup.d/??-{self.step}.sh" if self.step else "the output above"
        return BuildError(what, f"See {script}")
