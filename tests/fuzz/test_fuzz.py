"""A share of the fuzzers, with seeds of the day: what fails says how to see it again."""

import time

import pytest

from tests.fuzz import pages, valid

MUTATIONS, DATABASES = 60, 60


def test_changed_bytes_give_sqlites_numbers_or_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(time.time())
    tally = pages.run(seed, MUTATIONS, pages.load_bases())
    with capsys.disabled():
        print(f"\n.venv/bin/python -m tests.fuzz.pages --seed {seed} --count {MUTATIONS}: {tally}")
    defects = capsys.readouterr().out
    assert set(tally) <= {"same", "refused", "unworkable", "absent"}, f"seed {seed}: {defects}"


def test_valid_databases_give_sqlites_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(time.time())
    tally = valid.run(seed, DATABASES)
    with capsys.disabled():
        print(f"\n.venv/bin/python -m tests.fuzz.valid --seed {seed} --count {DATABASES}: {tally}")
    defects = capsys.readouterr().out
    assert set(tally) <= {"same", "refused"}, f"seed {seed}: {defects}"
