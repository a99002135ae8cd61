"""A share of the fuzzers of reports: what fails says how to see it again."""

import pytest

from tests.fuzz import pages, valid
from tests.seeds import choose_seed, choose_size

MUTATIONS, DATABASES = choose_size(20, nightly=2000), choose_size(20, nightly=2000)


@pytest.mark.drawn
def test_changed_bytes_give_sqlites_numbers_or_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    tally = pages.run(choose_seed(), MUTATIONS, pages.load_bases())
    defects = capsys.readouterr().out
    repeat = f"python -m tests.fuzz.pages --seed {choose_seed()} --count {MUTATIONS}"
    assert set(tally) <= {"same", "refused", "unworkable", "absent"}, f"{repeat}: {defects}"


@pytest.mark.drawn
def test_valid_databases_give_sqlites_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    tally = valid.run(choose_seed(), DATABASES)
    defects = capsys.readouterr().out
    repeat = f"python -m tests.fuzz.valid --seed {choose_seed()} --count {DATABASES}"
    assert set(tally) <= {"same", "refused"}, f"{repeat}: {defects}"
