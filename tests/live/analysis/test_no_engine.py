"""No recorded training is taken for an inference engine, with its NVTX ranges and without them."""

from dataclasses import replace

import numpy as np

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.store.files.open_report import open_report
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.settings.places import ROOT

DATA = ROOT / "tests" / "data"
SERVERS = DATA / "serving"
NO_ROWS = np.empty(0, np.int64)


def test_no_training_is_taken_for_an_engine() -> None:
    recordings = sorted(set(DATA.rglob("*.sqlite.gz")) - set(SERVERS.rglob("*.sqlite.gz")))
    assert len(recordings) >= 61
    engines = []
    for recording in recordings:
        with open_report(str(recording)) as database:
            for activity in activities_of(database, Scope()):
                bare = replace(activity, ranges=activity.ranges.pick(NO_ROWS))
                steps = (find_steps(activity), find_steps(bare))
                engines += [recording.parent.name for one in steps if one.are_iterations]
    assert engines == []
