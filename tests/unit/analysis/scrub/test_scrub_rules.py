"""What is taken for a secret, and what is not."""

import pytest

from gpu_profile.analysis.scrub.redactor import Redactor
from gpu_profile.analysis.scrub.rules import variables


@pytest.mark.parametrize(
    "text",
    [
        "void at::native::elementwise_kernel<(int)128, (int)2>(int, T3)",
        "tokens=4096, batch 8",
        "mask-rcnn/backbone 1/2",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        "/model/layers.0/attn/MatMul",
        "12.4.127.1 MB/s",
    ],
)
def test_names_of_work_are_left_alone(text: str) -> None:
    assert Redactor().text(text) == text
    assert Redactor().leaks(text) == ""


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ('RANK="1"', {"RANK": "1"}),
        ("A=1;B=two words;C=", {"A": "1", "B": "two words", "C": ""}),
        ('{"A": "1", "TOKEN": "x y"}', {"A": "1", "TOKEN": "x y"}),
        ("A=1\0B=x=y\0", {"A": "1", "B": "x=y"}),
    ],
)
def test_environments_are_read_however_nsys_writes_them(value: str, found: dict[str, str]) -> None:
    assert variables(value) == found
