"""Reports that cannot be read: one line that names the file and the reason, exit code 6."""

import gzip
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import GRAPH, KERNEL, NVTX, RUNTIME
from gpu_profile.analysis.store.sqlite.file import make_damaged_error
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.by_name import ANALYSES, OURS
from gpu_profile.analysis.tables.views import check_by, filter_rows, select_top
from gpu_profile.command import Command
from gpu_profile.errors import GpuProfileError, ReportError, SettingsError, ToolError
from gpu_profile.process import run
from tests.invoked import argv
from tests.unit.analysis.make import Rows, kernel, make_report, process, thread

RECORDED = Path(__file__).parents[2] / "data" / "h200x4-ddp" / "rank0.sqlite.gz"


def report(path: Path, schema: str = "3.20.3") -> bytes:
    rows = [kernel(i, i + 5, 1, correlation=i) for i in range(3000)]
    return make_report(path, {KERNEL: rows}, ["a kernel"], schema).read_bytes()


def foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE photos (name)")
    connection.commit()
    connection.close()


BROKEN: dict[str, tuple[str, Callable[[Path], object]]] = {
    "missing": ("does not exist", lambda path: None),
    "on a bad disk": ("cannot be read", lambda path: path.symlink_to("/proc/self/mem")),
    "empty": ("is empty", lambda path: path.write_bytes(b"")),
    "zeroed": ("zeroed header", lambda path: path.write_bytes(bytes(100) + report(path)[100:])),
    "text": ("is not a SQLite file", lambda path: path.write_text("<html>not found</html>" * 99)),
    "short": ("is truncated", lambda path: path.write_bytes(report(path)[:60])),
    "schema": (
        "is damaged",
        lambda path: path.write_bytes(
            report(path).replace(b"TABLE StringIds", b"TABL\xbe StringIds")
        ),
    ),
    "half": ("is truncated", lambda path: path.write_bytes(report(path)[:40_000])),
    "foreign": ("was not written by nsys", foreign),
    "next major": ("schema 4.0.0, unknown here", lambda path: report(path, "4.0.0")),
    "no schema": ("was not written by nsys", lambda path: report(path, "")),
    "odd schema": ("does not say its schema", lambda path: report(path, "new")),
}


def list_open_files() -> list[str]:
    links = Path("/proc/self/fd").iterdir()
    return [str(link.readlink()) for link in links if link.is_symlink()]


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_report_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "rank3.sqlite"
    reason, breaking = BROKEN[kind]
    breaking(path)
    with pytest.raises(ReportError) as caught:
        Database.open(path)
    assert reason in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    assert caught.value.exit_code == 6
    assert str(path) not in list_open_files()  # the error still holds what was being opened


def test_an_export_that_runs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    report(path)
    (tmp_path / "r.sqlite-journal").write_bytes(b"pages")
    with pytest.raises(ReportError, match="has a journal"):
        Database.open(path)


def test_a_truncated_gzip_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite.gz"
    path.write_bytes(gzip.compress(report(tmp_path / "plain.sqlite"))[:-2000])
    with pytest.raises(ReportError, match="is truncated or no gzip file"):
        Database.open(path)


@pytest.mark.further
def test_no_room_to_unpack_is_not_called_a_broken_file(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite.gz"
    path.write_bytes(gzip.compress(report(tmp_path / "plain.sqlite")))
    limited = ("bash", "-c", 'ulimit -f 8 && exec "$@"', "bash")
    words = argv("stats", f"--report={path}", directory=tmp_path)
    done = run(Command(argv=(*limited, *words)))
    assert done.returncode == 6, done.stderr
    assert f"{path} cannot be unpacked into {tempfile.gettempdir()}: File too large" in done.stderr
    assert "TMPDIR" in done.stderr.splitlines()[-1]


def test_a_report_that_is_not_exported_says_how(tmp_path: Path) -> None:
    path = tmp_path / "rank0.nsys-rep"
    path.write_bytes(b"\0" * 10)
    with pytest.raises(ReportError, match="nsys export --type=sqlite"):
        Database.open(path)


def test_a_folder_without_parquet_is_refused(tmp_path: Path) -> None:
    with pytest.raises((ReportError, ToolError)):
        Database.open(tmp_path)


def test_damage_after_the_header_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    content = bytearray(report(path))
    content[4096:-4096] = b"\xff" * (len(content) - 8192)
    path.write_bytes(content)
    with pytest.raises(ReportError, match=r"r\.sqlite"), Database.open(path) as database:
        database.load(KERNEL, "start")


@pytest.mark.parametrize(
    ("beside", "hint"),
    [
        ("", "Export it again: nsys export --type=sqlite --force-overwrite=true REPORT.nsys-rep;"),
        ("r.nsys-rep", "Export it again: nsys export --type=sqlite --force-overwrite=true {}"),
        ("r.pt.trace.json.gz", "Remove it, and give {}, which is then exported again"),
    ],
)
def test_a_damaged_export_is_made_again_from_what_lies_beside_it(
    beside: str, hint: str, tmp_path: Path
) -> None:
    recording = tmp_path / (beside or "other.nsys-rep")
    recording.write_bytes(b"")
    damaged = make_damaged_error(tmp_path / "r.sqlite", ValueError("a page is missing"))
    assert hint.format(recording) in str(damaged)


def test_a_newer_minor_schema_without_a_needed_column_is_refused(tmp_path: Path) -> None:
    columns = {KERNEL: "start end deviceId"}
    rows = {KERNEL: [(1, 2, 0)]}
    path = make_report(tmp_path / "r.sqlite", rows, schema="3.99.0", columns=columns)
    with Database.open(path) as database, pytest.raises(ReportError) as caught:
        ANALYSES["cuda_gpu_kern_sum"].table(database)
    assert "schema 3.99.0" in str(caught.value)
    assert f"{KERNEL} has no column demangledName" in str(caught.value)


@pytest.mark.parametrize("name", ANALYSES)
def test_a_report_without_any_of_it_gives_an_empty_table(tmp_path: Path, name: str) -> None:
    with Database.open(make_report(tmp_path / "r.sqlite", {})) as database:
        table = ANALYSES[name].table(database)
    assert (table.title, table.rows) == (name, ())
    assert ANALYSES[name].merge([]).columns == table.columns


def test_a_range_that_only_launches_whole_graphs_has_no_row(tmp_path: Path) -> None:
    """As nsys 2025.3.1 has it for graphs that were traced as a whole."""
    here, owner = thread(7), process(7)
    tables: dict[str, Rows] = {
        GRAPH: [(500, 900, 0, 7, 42, owner)],
        RUNTIME: [(110, 120, here, 42, 2)],
        NVTX: [(100, 200, 59, here, None, 0, "replay", None, None)],
    }
    path = make_report(tmp_path / "r.sqlite", tables, ["x", "cudaGraphLaunch_v10000"])
    with Database.open(path) as database:
        table = ANALYSES["nvtx_gpu_proj_sum"].table(database)
    assert table.rows == ()


def test_a_graphs_launch_is_one_operation_of_its_range_and_all_its_kernels(tmp_path: Path) -> None:
    """With --cuda-graph-trace=node, every kernel of a graph has the launch's correlation."""
    tables: dict[str, Rows] = {
        KERNEL: [kernel(500 + i * 10, 505 + i * 10, 1, correlation=42) for i in range(3)],
        RUNTIME: [(110, 120, thread(7), 42, 2)],
        NVTX: [(100, 200, 59, thread(7), None, 0, "replay", None, None)],
    }
    path = make_report(tmp_path / "r.sqlite", tables, ["k", "cudaGraphLaunch_v10000"])
    with Database.open(path) as database:
        ranges = ANALYSES["nvtx_gpu_proj_sum"].table(database)
        kernels = ANALYSES["cuda_kern_exec_sum"].table(database)
    assert ranges.column("Total GPU Ops") == (1,)
    assert kernels.column("Count") == (3,)


@pytest.mark.parametrize(
    ("refuse", "reason"),
    [
        (lambda: check_by("device", ("rank",), "cuda_api_sum"), "cannot be split by device"),
        (lambda: check_by("node", ("rank", "device"), "x"), "Use --by rank or device"),
        (lambda: filter_rows(ANALYSES["nvtx_sum"].merge([]), "("), "--filter '('"),
        (lambda: select_top(ANALYSES["nvtx_sum"].merge([]), -1), "--top -1"),
    ],
)
def test_what_cannot_be_shown_is_said(refuse: Callable[[], object], reason: str) -> None:
    with pytest.raises(SettingsError) as caught:
        refuse()
    assert isinstance(caught.value, GpuProfileError)
    assert reason in str(caught.value)


def damage(path: Path, change: str) -> Path:
    path.write_bytes(gzip.decompress(RECORDED.read_bytes()))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"{change} WHERE rowid = 9")
    return path


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (f'UPDATE {KERNEL} SET "end" = -1', "ends before it starts"),
        (f'UPDATE {KERNEL} SET "end" = start - 1', "ends before it starts"),
        (f'UPDATE {KERNEL} SET "end" = 9223372036854775807', "more than a year apart"),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET start = 9000000000000000000, "
            '"end" = 9000000000000000001',
            "more than a year apart",
        ),
    ],
)
def test_an_operation_at_a_time_that_no_gpu_records_is_refused(
    tmp_path: Path, change: str, reason: str
) -> None:
    path = damage(tmp_path / "rank0.sqlite", change)
    with pytest.raises(ReportError, match=reason), Database.open(path) as database:
        OURS["temporal_breakdown"].partial(database, Scope())


def test_a_missing_column_is_named_where_two_are_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "rank0.sqlite"
    path.write_bytes(gzip.decompress(RECORDED.read_bytes()))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"ALTER TABLE {KERNEL} RENAME COLUMN start TO begin")
    with pytest.raises(ReportError, match=r"no column start\."), Database.open(path) as database:
        ANALYSES["cuda_gpu_kern_sum"].table(database)
