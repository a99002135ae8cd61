"""What starts the ranks of a container, from its words: in the package and in the agent alike."""

import pytest
from program_kind import find_program

from gpu_profile.manifest.starters import Starter, find_starter, skip_inits


@pytest.mark.parametrize(
    ("words", "place", "starter"),
    [
        ("torchrun t.py", 0, Starter.TORCHRUN),
        ("tini -- torchrun t.py", 2, Starter.TORCHRUN),
        ("/usr/bin/tini -g -p SIGTERM -- python3 -m torch.distributed.run t.py", 5, None),
        ("tini /opt/entrypoint.sh torchrun t.py", 2, Starter.TORCHRUN),
        ("dumb-init --single-child mpirun -n 2 x", 2, Starter.MPIRUN),
        ("/start.sh python3 t.py", 0, Starter.CONTAINER),
        ("tini", 0, Starter.CONTAINER),
        ("tini --", 0, Starter.CONTAINER),
    ],
)
def test_inits_and_entrypoints_are_looked_through(
    words: str, place: int, starter: Starter | None
) -> None:
    split = words.split()
    assert find_program(split) == place
    assert find_starter(split) is (starter or Starter.TORCHRUN)
    assert list(skip_inits(split)) == split[place:] or split[-1] == "--"
