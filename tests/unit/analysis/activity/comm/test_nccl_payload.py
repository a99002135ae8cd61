"""NCCL's payloads as nsys exports them, whole and damaged."""

from pathlib import Path

import pytest

from gpu_profile.analysis.activity.comm.nccl_payload import NcclCalls, load_nccl_calls
from gpu_profile.analysis.store.database import Database
from tests.unit.analysis.nccl_synthetic import all_reduce_of, nccl_ranks


def load_calls(size: int, folder: Path) -> NcclCalls:
    ranks = nccl_ranks(2)
    all_reduce_of(ranks, communicator=5, size=size)
    with Database.open(ranks[0].recording.save(folder / "run.sqlite")) as database:
        return load_nccl_calls(database, ranks[0].process)


def test_the_size_of_a_message_is_in_bytes(tmp_path: Path) -> None:
    assert load_calls(8 << 20, tmp_path).size.tolist() == [8 << 20]


@pytest.mark.parametrize("size", [1 << 49, 1 << 63, (1 << 64) - 1])
def test_a_size_beyond_any_memory_is_damage(size: int, tmp_path: Path) -> None:
    """One of 2**63 did not fit into a column of whole numbers, and sums of others overflowed."""
    assert load_calls(size, tmp_path).size.tolist() == []
