"""profile --annotate on a real cluster: the steps and modules of the image's sample."""

import pytest

from tests.live.annotate.marked import list_ranges
from tests.live.kubernetes.conftest import Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]
SMALL = ("python3", "/train.py", "--layers=1", "--width=64", "--steps=3", "--warmup=1")


def test_modules_are_in_each_report(cluster: Cluster) -> None:
    done = cluster.profile("pytorchjob", "--ddp", "--annotate=modules", "--", *SMALL)
    assert done.returncode == 0, done.stderr
    (run,) = cluster.directory.glob("*/run.json")
    ranges = list_ranges(run.parent)
    assert len(ranges) == 2
    for calls in ranges.values():
        names = {text.partition("|")[0] for text in calls}
        assert {"step", "forward", "backward", "optimizer AdamW"} <= names
        assert {"forward LanguageModel", "forward guess", "backward guess"} <= names
