"""The budget: what each component may add to the image, in MB. Raise a number only on purpose."""

import pytest

from gpu_profile import process
from gpu_profile.image.size import measure_size
from gpu_profile.table import Table

BUDGET_MB = {
    "common packages": 80,
    "entrypoints and manifest": 5,
    "nsys": 1000,
    "torch": 8000,
    "mpi": 120,
    "efa": 900,
    "nccl": 600,
    "gdrcopy": 2,
    "nccl-tests": 120,
}
"""For the largest source of each: the CUDA build of PyTorch, NVIDIA's nsys, AWS's installer."""
SMALL_SOURCES_MB = {"nsys": 480, "torch": 780, "efa": 50}
"""Of the distribution's packages."""


@pytest.fixture(scope="module")
def by_component(image: str) -> Table:
    return process.drive(measure_size(image))[0]


def test_no_component_is_over_its_budget(by_component: Table) -> None:
    sizes = dict(zip(by_component.column("Part"), by_component.column("Size"), strict=True))
    megabytes = {str(name): round(int(size or 0) / 1e6) for name, size in sizes.items()}
    embedded = megabytes["base image"] < 200
    budget = BUDGET_MB | (SMALL_SOURCES_MB if embedded else {})
    over = {
        name: (megabytes[name], budget[name])
        for name in megabytes
        if megabytes[name] > budget.get(name, 1 << 20)
    }
    assert over == {}


def test_every_layer_is_somebodys(by_component: Table) -> None:
    assert "component" not in by_component.column("Part")
