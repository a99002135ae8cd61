"""A share of the fuzzers of reports: what fails says how to see it again."""

import pytest

from tests.fuzz import pages, valid
from tests.seeds import choose_size, list_seeds

MUTATIONS, DATABASES = choose_size(10, nightly=250), choose_size(10, nightly=250)


@pytest.mark.drawn
@pytest.mark.parametrize("seed", list_seeds((1,), nightly=8))
def test_changed_bytes_give_sqlites_numbers_or_a_line(
    seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    tally = pages.run(seed, MUTATIONS, pages.load_bases())
    defects = capsys.readouterr().out
    repeat = f"python -m tests.fuzz.pages --seed {seed} --count {MUTATIONS}"
    assert set(tally) <= {"same", "refused", "unworkable", "absent"}, f"{repeat}: {defects}"


@pytest.mark.further
@pytest.mark.drawn
@pytest.mark.parametrize("seed", list_seeds((1,), nightly=8))
def test_valid_databases_give_sqlites_numbers(
    seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    tally = valid.run(seed, DATABASES)
    defects = capsys.readouterr().out
    repeat = f"python -m tests.fuzz.valid --seed {seed} --count {DATABASES}"
    assert set(tally) <= {"same", "refused"}, f"{repeat}: {defects}"
