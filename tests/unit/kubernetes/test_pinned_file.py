"""A file of a known SHA-256: its folder goes, however the work with it ends."""

import pytest

from gpu_profile.command import Command, Result, Steps, make_command
from gpu_profile.kubernetes.pinned_file import use_pinned
from gpu_profile.signals import HungUp

OK = Result(returncode=0)
FOLDER = Result(returncode=0, stdout="/tmp/x\n")


def apply_file(path: str) -> Steps[Result]:
    return (yield make_command("kubectl", "apply", f"--filename={path}"))


def interrupted(interrupt: BaseException, *answers: Result) -> Command:
    """The command that follows the interrupt, which is the last."""
    steps = use_pinned("https://example.com/a.yaml", "0" * 64, apply_file)
    next(steps)
    for result in answers:
        steps.send(result)
    cleanup = steps.throw(interrupt)
    with pytest.raises(type(interrupt)):
        steps.send(OK)
    return cleanup


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), HungUp()], ids=["INT", "HUP"])
@pytest.mark.parametrize("answers", [(FOLDER,), (FOLDER, OK), (FOLDER, OK, OK)], ids=len)
def test_an_interrupt_leaves_no_folder(
    interrupt: BaseException, answers: tuple[Result, ...]
) -> None:
    assert interrupted(interrupt, *answers).argv == ("rm", "-rf", "--one-file-system", "/tmp/x")
