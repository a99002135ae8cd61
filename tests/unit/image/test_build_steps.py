"""A build is told by a line a step; --verbose shows all, and a failure its step's last lines."""

from collections.abc import Callable

import pytest

from gpu_profile.command import make_command
from gpu_profile.errors import GpuProfileError
from gpu_profile.image import build_steps
from gpu_profile.image.build_steps import BuildSteps
from gpu_profile.verbs.image.build import run_build

PLAIN = """\
#1 [internal] load build definition from Dockerfile
#1 transferring dockerfile: 3.42kB done
#1 DONE 0.0s

#6 [torch 1/1] RUN     --mount=type=bind,source=x,target=/mnt/stage     --mount=type=bind,target=/mnt/setup.sh     ["bash", "/mnt/setup.sh"]
#6 0.312 Get:1 http://mirror.example/debian trixie InRelease
#7 [image 2/7] COPY --link --from=nsys /out/ /
#7 CACHED
#6 32.34 Setting up libc6
#6 DONE 33.1s
#8 exporting to image
#8 exporting layers 0.3s done
#8 DONE 0.4s
"""  # noqa: E501 - BuildKit's own lines
FAILURE = """\
#6 [torch 1/1] RUN x
#6 1.0 E: no such package
#6 ERROR: process "x" did not complete successfully: exit code: 100
------
 > [torch 1/1] RUN x:
1.0 E: no such package
------
ERROR: failed to build: failed to solve: exit code: 100
"""


def test_each_step_is_one_line() -> None:
    steps = BuildSteps()
    shown = [text for line in PLAIN.splitlines() if (text := steps.describe(line))]
    assert shown == [
        "image: COPY --from=nsys /out/ /: made before",
        "torch: 33.1 s",
        "image: export: 0.4 s",
    ]


def test_a_long_step_shows_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_steps, "_SILENT_S", 0.0)
    steps = BuildSteps()
    steps.describe("#6 [torch 1/1] RUN --mount=type=bind,target=/mnt/setup.sh x")
    line = steps.describe(f"#6 0.3 \x1b[31m{'Get ' * 50}")
    assert line.startswith("torch: … 0.3 \\x1b[31mGet")
    assert len(line) < 110


@pytest.mark.parametrize("verbose", [False, True])
def test_a_build_prints_its_steps_or_all(
    verbose: bool,
    fake_tool: Callable[..., object],
    capfd: pytest.CaptureFixture[str],
) -> None:
    fake_tool("docker", f"cat <<'E'\n{PLAIN}E")
    run_build(make_command("docker", "buildx", "build"), verbose=verbose)
    lines = capfd.readouterr().err.splitlines()
    assert ("torch: 33.1 s" in lines, "#6 32.34 Setting up libc6" in lines) == (
        not verbose,
        verbose,
    )


def test_a_failed_build_shows_the_last_lines_of_its_step(
    fake_tool: Callable[..., object], capfd: pytest.CaptureFixture[str]
) -> None:
    fake_tool("docker", f"case $1 in buildx) cat <<'E'\n{FAILURE}E\nexit 1 ;; esac")
    with pytest.raises(GpuProfileError):  # this docker answers nothing else
        run_build(make_command("docker", "buildx", "build"))
    assert "  E: no such package\n" in capfd.readouterr().err
