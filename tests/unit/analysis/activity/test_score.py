"""The score of iterations against a server's own log."""

from pathlib import Path

from bench.serving.score import score_steps
from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.store.files.open_report import open_report
from gpu_profile.analysis.tables.analysis import Scope
from tests.generator.reports import EPOCH_NS
from tests.generator.serving import Server, serve


def test_found_iterations_are_held_against_the_log(tmp_path: Path) -> None:
    run = serve(Server(requests=6, chunk=256))
    lines = [
        {
            "start": (EPOCH_NS + iteration.host) / 1e9,
            "end": (EPOCH_NS + iteration.gpu) / 1e9,
            "kind": iteration.kind,
            "batch": iteration.batch,
        }
        for iteration in run.iterations
    ]
    lines[5] |= {"kind": "prefill", "batch": 99}
    with open_report(str(run.save(tmp_path))) as database:
        (activity,) = activities_of(database, Scope())
        counts = score_steps([*lines[:7], *lines[8:]], find_steps(activity), EPOCH_NS)
    all_but_one = len(lines) - 1
    assert counts == {
        "logged": all_but_one,
        "found": all_but_one,
        "right kind": all_but_one - 1,
        "wrong kind": 1,
        "right batch": all_but_one - 1,
        "not logged": 1,
    }
