"""Results of threads come in order, and so does an error."""

import threading
from contextlib import closing

import pytest

from gpu_profile.analysis.store import threads


@pytest.fixture(autouse=True, params=[1, 2, 4])
def _count(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "COUNT", request.param)


def test_results_come_in_the_order_of_the_items() -> None:
    assert list(threads.map_ahead(lambda item: item * item, range(50))) == [
        item * item for item in range(50)
    ]
    assert list(threads.map_ahead(str, [])) == []


def test_an_error_is_raised_in_the_place_of_its_item() -> None:
    results = threads.map_ahead(lambda item: 10 // item, [5, 2, 0, 1])
    assert [next(results), next(results)] == [2, 5]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_no_thread_outlives_a_reader_that_stops_early() -> None:
    before = threading.active_count()
    with closing(threads.map_ahead(str, range(1000))) as results:
        assert next(results) == "0"
    assert threading.active_count() == before
