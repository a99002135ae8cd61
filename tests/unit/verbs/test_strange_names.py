"""A name beyond all measure, or one that is no text: bounded results, and one line that says so."""

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.further import further
from tests.invoked import invoke
from tests.unit.verbs.small_report import make_small_report

LONG = "texts longer than 65,536 bytes are cut there"
NO_UTF8 = "texts that are not UTF-8 are shown with \N{REPLACEMENT CHARACTER}"
NAMES = {
    "long": (b"long_kernel" + b"k" * 3_000_000, LONG),
    "no UTF-8": (b"kernel_\xff\xfe_end", NO_UTF8),
    "a character cut in two": (b"k" * 65_535 + "\N{EURO SIGN}".encode(), LONG),
}
STATS = ("stats", "--table=cuda_gpu_kern_sum")
CASES = (
    ("long", ("html",)),
    ("no UTF-8", STATS),
    ("a character cut in two", STATS),
)
"""Each name. The verbs that are left to CI read names as these do."""
LEFT = [
    *(further("long", words) for words in (("timeline",), ("diagnose",), STATS)),
    further("no UTF-8", ("html",)),
]


def make_renamed(path: Path, name: bytes) -> Path:
    """A small report; its kernels have another name."""
    path.write_bytes(make_small_report())
    with closing(sqlite3.connect(path)) as report:
        report.execute(
            "UPDATE StringIds SET value = CAST(? AS TEXT) WHERE id ="
            " (SELECT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1)",
            (name,),
        )
        report.commit()
    return path


def test_a_page_of_a_file_whose_name_is_no_utf_8(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "rank0\udcff.sqlite.gz").write_bytes(gzip.compress(make_small_report()))
    done = invoke("html", f"--report={folder}", f"--output={tmp_path}/page", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "rank0?.sqlite.gz" in (tmp_path / "page").read_text(encoding="utf-8")


@pytest.mark.parametrize(("kind", "words"), [*CASES, *LEFT])
def test_a_strange_name_is_bounded_and_said_once(
    kind: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    name, note = NAMES[kind]
    report = make_renamed(tmp_path / "rank0.sqlite", name)
    output = tmp_path / "output"
    to = [f"--output={output}"] if words[0] in ("html", "timeline") else []
    done = invoke(*words, f"--report={report}", *to, directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("texts ") == 1, done.stderr
    assert f"note: rank0.sqlite: {note}\n" in done.stderr
    assert "Traceback" not in done.stderr
    written = output.read_bytes() if to else done.stdout.encode()
    written.decode() if words[0] != "timeline" else gzip.decompress(written)
    assert len(written) < 1_000_000, "3 MB went through, or a name of 65,536 bytes many times"
