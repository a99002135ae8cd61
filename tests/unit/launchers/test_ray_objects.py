"""A RayJob's pods run on after its end: its one word of status counts, and the fetch ends them."""

from pathlib import Path
from typing import Any

import pytest

from gpu_profile.command import Result
from gpu_profile.declared.object_kinds import KINDS
from gpu_profile.job_status import JobState
from gpu_profile.launchers.user_object import UserObject
from tests.unit.launchers.kubernetes_objects import answer, driven, items, pod
from tests.unit.settings_for import settings_for

LAUNCHER = UserObject.from_kind(settings_for(), KINDS["rayjob"])
PODS = (pod("tune-head-x1y2z"), pod("tune-workers-worker-a3b4c"))
OK = Result(returncode=0)


def rayjob(word: str, **status: Any) -> Result:
    notes = {"gpu-profile.io/reports": "/gpu-profile/tune-1", "gpu-profile.io/manifest": "true"}
    marks = {"gpu-profile.io/run": "tune-1"}
    metadata = {"name": "tune", "namespace": "team", "labels": marks, "annotations": notes}
    return answer({"metadata": metadata, "status": {"jobDeploymentStatus": word, **status}})


@pytest.mark.parametrize(
    ("word", "state"),
    [("Running", JobState.RUNNING), ("Complete", JobState.SUCCEEDED), ("Failed", JobState.FAILED)],
)
def test_its_one_word_is_its_state_while_its_pods_run(word: str, state: JobState) -> None:
    job, logs = rayjob(word, message="no worker came"), [OK] * (word == "Running")
    status, _ = driven(LAUNCHER.status("team/tune"), job, items(*PODS), *logs)
    assert status.state is state
    assert ("no worker came" in status.reason) == (word == "Failed")


def test_what_its_pods_record_ends_before_they_are_read() -> None:
    steps = LAUNCHER.fetch("team/tune", Path("/reports"))
    ended = (rayjob("Complete"), items(*PODS), OK, OK)
    nothing = Result(returncode=96)
    read = (rayjob("Complete"), items(*PODS), nothing, nothing, OK, OK)
    _, commands = driven(steps, *ended, *read)
    scripts = [" ".join(command.argv) for command in commands]
    stops = [n for n, words in enumerate(scripts) if ".stopped." in words]
    lists = [n for n, words in enumerate(scripts) if "cksum -- *.nsys-rep" in words]
    assert len(stops) == len(lists) == len(PODS)
    assert max(stops) < min(lists)
