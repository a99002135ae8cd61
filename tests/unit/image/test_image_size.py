"""An image's bytes by component, from what `docker history` says of its layers."""

import pytest

from gpu_profile.command import Result
from gpu_profile.engine.engine_answers import NO_DAEMON
from gpu_profile.errors import ToolError
from gpu_profile.image.size import (
    SizePart,
    by_component,
    largest_files,
    measure_size,
    parse_history,
    sum_gain,
)

HISTORY = """\
0\tCMD ["/startup.sh"]
300\tCOPY Container-Root/startup.sh Container-Root/*.py / # buildkit
200\tCOPY Container-Root/test.d/ /test.d/ # buildkit
0\tENV NCCL_NET_PLUGIN=ofi
500\tRUN python3 /mnt/final/merge.py # buildkit
4000\tCOPY /out/ / # buildkit
3000\tCOPY /out/ / # buildkit
2000\tRUN bash /mnt/setup.sh # buildkit
10000\t
"""
PARTS = parse_history(HISTORY, ("torch", "nsys"))


def test_layers_are_told_apart_by_their_order() -> None:
    assert (
        SizePart(name="base image", size=10000),
        SizePart(name="common packages", size=2000),
        SizePart(name="torch", size=3000),
        SizePart(name="nsys", size=4000),
        SizePart(name="entrypoints and manifest", size=1000),
    ) == PARTS
    assert sum_gain(PARTS) == 10000


def test_the_table_ends_with_the_sums() -> None:
    rows = by_component(PARTS).rows
    assert rows[-2:] == (("over the base image", 10000, 50.0), ("the image", 20000, 100.0))


def test_an_image_of_somebody_else() -> None:
    assert parse_history("5\tRUN make\n7\tADD x\n", ()) == (SizePart(name="base image", size=12),)
    assert parse_history("", ()) == (SizePart(name="base image", size=0),)


def test_an_engine_that_is_away_is_not_told_as_a_missing_image() -> None:
    for said, hint in ((NO_DAEMON, "doctor --fix"), ("No such image: i", "invoke build")):
        steps = measure_size("i")
        next(steps)
        with pytest.raises(ToolError, match=hint):
            steps.send(Result(returncode=1, stderr=said))


def test_largest_files_keep_odd_names() -> None:
    rows = largest_files("30 /opt/a b\n20 /opt/c\nfind: no\n").rows
    assert rows == (("/opt/a b", 30), ("/opt/c", 20))
