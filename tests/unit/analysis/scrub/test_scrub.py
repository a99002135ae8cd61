"""A scrubbed copy holds the events and nothing that tells where, as whom, with which secrets."""

import gzip
import hashlib
import shutil
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gpu_profile.analysis.nsys_tables.cuda.cuda_gpu_kern_sum import CUDA_GPU_KERN_SUM
from gpu_profile.analysis.our_tables.host.host_function_sum import HOST_FUNCTION_SUM
from gpu_profile.analysis.our_tables.step_sum import STEP_SUM
from gpu_profile.analysis.our_tables.temporal_breakdown import TEMPORAL_BREAKDOWN
from gpu_profile.analysis.scrub.copy_tables import LONGEST_COPIED
from gpu_profile.analysis.scrub.redactor import Redactor
from gpu_profile.analysis.scrub.scrub import _name_copy, make_scrub_options, scrub_reports
from gpu_profile.analysis.store.database import Database
from gpu_profile.errors import GpuProfileError, ReportError

DATA = Path(__file__).parents[3] / "data" / "h200x4-ddp"

# Made by hand, of the right shape and worth nothing.
AWS = "AKIA" + "Q3EGRIPPLEWATER2"
HUGGING_FACE = "hf_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z"
GITHUB = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcDEF123-_x"
PEM = (
    "-----BEGIN RSA "
    + "PRIVATE KEY-----\nMIIEow"
    + "A1b2" * 600
    + "\n-----END RSA PRIVATE KEY-----"
)
ENVIRONMENT = ";".join(
    (
        "RANK=3",
        "WORLD_SIZE=8",
        "USER=carolyn",
        "HOSTNAME=trainbox-17",
        "HOME=/home/carolyn",
        f"AWS_ACCESS_KEY_ID={AWS}",
        "MY_API_KEY=correct-horse-battery",
    )
)
GONE = (
    *(AWS, HUGGING_FACE, GITHUB, JWT, "MIIEow", "carolyn", "trainbox-17", "/home/", "/fsx/"),
    *(
        "correct-horse-battery",
        "hunter2hunter2",
        "project-orion",
        "printed by the job",
        "ip-10-3-2-1",
    ),
)


@pytest.fixture(scope="module")
def planted(short_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real report with everything planted that must not leave."""
    path = tmp_path_factory.mktemp("planted") / "rank0.trainbox-17.sqlite"
    shutil.copy(short_run / "rank0.sqlite", path)
    with closing(sqlite3.connect(path)) as plant:
        _plant(plant)
        plant.commit()
    return path


@pytest.fixture
def report(planted: Path, tmp_path: Path) -> Path:
    """A copy of the planted report of a test's own."""
    return Path(shutil.copy(planted, tmp_path))


@pytest.fixture(scope="module")
def scrubbed(planted: Path) -> Path:
    """What scrub makes of the planted report."""
    return _scrubbed(planted)


def _plant(plant: sqlite3.Connection) -> None:
    system = "UPDATE TARGET_INFO_SYSTEM_ENV SET value = ? WHERE name = ?"
    plant.execute(system, (ENVIRONMENT, "DeviceEnvironment"))
    plant.execute(system, ("trainbox-17", "Hostname"))
    captured = [
        ("PROCESS_0:ENVIRONMENT_VARIABLE_0", f'HF_TOKEN="{HUGGING_FACE}"'),
        ("PROCESS_0:ARGUMENT_7", "/home/carolyn/project-orion/train.py"),
        ("PROCESS_0:ARGUMENT_8", "--password"),
        ("PROCESS_0:ARGUMENT_9", "hunter2hunter2"),
        ("PROCESS_0:ARGUMENT_10", f"--url=https://bot:{GITHUB}@example.com/x"),
        ("PROCESS_0:WORKING_DIR", "/home/carolyn"),
        ("PROCESS_0:USER_NAME", "carolyn"),
    ]
    plant.executemany("INSERT INTO META_DATA_CAPTURE (name, value) VALUES (?, ?)", captured)
    strings = [
        (90_001, "range for carolyn on trainbox-17 /fsx/project-orion/data.bin"),
        (90_002, f"Authorization: Bearer {JWT}"),
        (90_003, PEM),
        (90_004, "/model/layers.0/attn/MatMul"),
        (90_005, "from ip-10-3-2-1.ec2.internal"),
    ]
    plant.executemany("INSERT INTO StringIds (id, value) VALUES (?, ?)", strings)
    # Referred to by a range each, or they would go as nobody's strings.
    ranges = [(place, number) for place, (number, _) in enumerate(strings, 2)]
    plant.executemany("UPDATE NVTX_EVENTS SET textId = ?2, text = NULL WHERE rowid = ?1", ranges)
    other = [(91_001, "MAIL=/var/mail/bob"), (91_002, "OTHER_JOB=project-orion")]
    plant.executemany("INSERT INTO StringIds (id, value) VALUES (?, ?)", other)
    plant.execute(
        "UPDATE StringIds SET value = 'printed by the job' "
        "WHERE id = (SELECT contentId FROM ProcessStreams LIMIT 1)"
    )
    plant.execute("UPDATE NVTX_EVENTS SET text = ? WHERE rowid = 1", (f"step {AWS}",))


def _scrubbed(report: Path, keep: tuple[str, ...] = (), also: tuple[str, ...] = ()) -> Path:
    output = report.parent / "out.sqlite"
    scrub_reports([report], output, make_scrub_options(keep, also))
    return output


def _values(path: Path, query: str) -> list[object]:
    with closing(sqlite3.connect(path)) as copy:
        return [row[0] for row in copy.execute(query)]


def test_nothing_planted_is_left_in_the_bytes(scrubbed: Path) -> None:
    raw = scrubbed.read_bytes()
    assert [text for text in GONE if text.encode() in raw] == []


def test_the_original_is_not_touched(report: Path) -> None:
    before = hashlib.sha256(report.read_bytes()).digest()
    _scrubbed(report)
    assert hashlib.sha256(report.read_bytes()).digest() == before
    assert sorted(path.name for path in report.parent.iterdir()) == ["out.sqlite", report.name]


def test_events_names_and_ranks_stay(planted: Path, scrubbed: Path) -> None:
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
        query = f"SELECT start FROM {table} ORDER BY rowid"
        assert _values(scrubbed, query) == _values(planted, query)
    kernels = (
        "SELECT value FROM StringIds WHERE id IN "
        "(SELECT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL)"
    )
    assert _values(scrubbed, kernels) == _values(planted, kernels)
    environment = _values(
        scrubbed, "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'DeviceEnvironment'"
    )
    assert environment == ["RANK=3;WORLD_SIZE=8"]
    assert _values(scrubbed, "SELECT value FROM StringIds WHERE id = 90004") == [
        "/model/layers.0/attn/MatMul"
    ]
    with Database.open(scrubbed) as database:
        assert database.event_counts()["CUPTI_ACTIVITY_KIND_KERNEL"] == 1176


def test_the_scrubbed_report_has_the_same_tables(planted: Path, scrubbed: Path) -> None:
    with Database.open(planted) as before, Database.open(scrubbed) as after:
        for analysis in (CUDA_GPU_KERN_SUM, TEMPORAL_BREAKDOWN, STEP_SUM):
            assert analysis.table(after) == analysis.table(before)


@pytest.mark.recorded
def test_python_stacks_and_nccl_payloads_stay(tmp_path: Path) -> None:
    """Their payloads hold ids and numbers; the functions were lost once, as nobody's strings."""
    report = DATA.parent / "h200-loader" / "rank0.sqlite.gz"
    table = scrub_reports([report], tmp_path / "copy.sqlite")
    assert table.column("Blobs emptied") == (0,)
    with Database.open(report) as before, Database.open(tmp_path / "copy.sqlite") as after:
        assert HOST_FUNCTION_SUM.table(after) == HOST_FUNCTION_SUM.table(before)
    packed = DATA.parent / "unprepared" / "pipeline" / "rank0.sqlite.gz"
    scrub_reports([packed], tmp_path / "nccl.sqlite")
    original = tmp_path / "original.sqlite"
    original.write_bytes(gzip.decompress(packed.read_bytes()))
    payloads = "SELECT binaryData FROM NVTX_EVENTS WHERE binaryData NOTNULL ORDER BY rowid"
    assert _values(tmp_path / "nccl.sqlite", payloads) == _values(original, payloads) != []


def test_a_text_in_the_place_of_a_number_is_no_payload_of_numbers(tmp_path: Path) -> None:
    """A schema with one field that is no number, and payloads longer than their fields."""
    entries = "schemaId INT, name TEXT, type INT, flags INT"
    with closing(sqlite3.connect(tmp_path / "report.sqlite")) as database:
        database.execute(f"CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES ({entries})")
        fields = [(1, "Rank", 5), (2, "Rank", 5), (2, "Host", 75), (3, "Rank", 2)]
        database.executemany(
            "INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES (?, ?, ?, NULL)", fields
        )
        database.execute("CREATE TABLE NVTX_EVENTS (start INT, binaryData TEXT)")
        payloads = [(1, b"\1\0\0\0"), (1, b"hunter2hunter2hunter2"), (2, b"hunter2"), (3, b"h")]
        blobs = [struct.pack("<4Q", 1, schema, len(p), 32) + p for schema, p in payloads]
        for start, blob in enumerate([*blobs, blobs[0] + b"hunter2", b"hunter2"]):
            database.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?)", (start, blob))
        database.commit()
    table = scrub_reports([tmp_path / "report.sqlite"], tmp_path / "copy.sqlite")
    assert table.column("Blobs emptied") == (5,)
    query = "SELECT binaryData FROM NVTX_EVENTS ORDER BY start"
    assert _values(tmp_path / "copy.sqlite", query) == [blobs[0], *[b""] * 5]


@pytest.mark.recorded
def test_a_copy_is_scrubbed_again_to_the_same_bytes(tmp_path: Path) -> None:
    """Also of a machine that is named like a stand-in."""
    report = tmp_path / "rank0.sqlite"
    packed = DATA.parent / "annotated" / "gemm" / "rank0.sqlite.gz"
    report.write_bytes(gzip.decompress(packed.read_bytes()))
    for host in ("trainbox-17", "host0"):
        with closing(sqlite3.connect(report)) as plant:
            update = "UPDATE TARGET_INFO_SYSTEM_ENV SET value = ? WHERE name = 'Hostname'"
            assert plant.execute(update, (host,)).rowcount
            plant.commit()
        copies = [tmp_path / f"{host}.{number}.sqlite" for number in (1, 2)]
        scrub_reports([report], copies[0])
        scrub_reports([copies[0]], copies[1])
        assert copies[0].read_bytes() == copies[1].read_bytes()


@pytest.mark.recorded
def test_recorded_names_stay() -> None:
    """No name of a kernel, a module or a range is taken for a host, a user or a secret."""
    for name in ("h200x4-ddp", "annotated/compiled", "unprepared/jax_data_parallel"):
        report = DATA.parent / name / "rank0.sqlite.gz"
        with Database.open(report) as database:
            rows = database.rows("StringIds", "value") + database.rows("NVTX_EVENTS", "text")
        names = sorted({str(text) for (text,) in rows if text and "/" not in str(text)})
        assert len(names) > 100
        assert [text for text in names if Redactor().text(text) != text] == []


@pytest.mark.further
def test_the_same_host_has_one_stand_in_over_all_reports(report: Path, tmp_path: Path) -> None:
    other = tmp_path / "rank1.trainbox-17.sqlite"
    shutil.copy(report, other)
    table = scrub_reports([report, other], tmp_path / "out")
    assert table.column("Report") == (report.name, other.name)
    query = "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname'"
    names = [_values(tmp_path / "out" / f"rank{rank}.sqlite", query) for rank in (0, 1)]
    assert names[0] == names[1]
    assert names[0] == ["<host0>"]


def test_same_input_same_bytes(report: Path, tmp_path: Path) -> None:
    packed = tmp_path / "rank0.sqlite.gz"
    packed.write_bytes(gzip.compress(report.read_bytes()))
    outputs = [tmp_path / "a.sqlite.gz", tmp_path / "b.sqlite.gz"]
    for output in outputs:
        scrub_reports([packed], output)
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_keep_and_also(report: Path) -> None:
    output = _scrubbed(report, keep=("hosts", "USER"), also=("optimizer",))
    raw = output.read_bytes()
    assert b"trainbox-17" in raw
    assert b"optimizer" not in raw
    assert b"correct-horse-battery" not in raw


def test_a_given_string_that_is_part_of_the_schema_is_said_and_no_copy_stays(report: Path) -> None:
    with pytest.raises(ReportError, match="still held a user, host or given string"):
        _scrubbed(report, also=("demangledName",))
    assert not (report.parent / "out.sqlite").exists()


def test_a_hostile_file_does_not_run_its_code(report: Path) -> None:
    with closing(sqlite3.connect(report)) as plant:
        plant.executescript(f"""
            CREATE TABLE "odd""name" (x TEXT DEFAULT '{AWS}');
            CREATE VIEW spy AS SELECT '{AWS}';
            CREATE INDEX secrets ON StringIds(value) WHERE value <> '{GITHUB}';
            CREATE TABLE loose (a INTEGER, b BLOB);
            INSERT INTO loose VALUES ('{GITHUB}', CAST('xx{AWS} ' AS BLOB));
            CREATE TRIGGER bite AFTER INSERT ON loose BEGIN DELETE FROM StringIds; END;
        """)
    output = _scrubbed(report)
    raw = output.read_bytes()
    assert AWS.encode() not in raw
    assert GITHUB.encode() not in raw
    assert _values(output, "SELECT count(*) FROM sqlite_master WHERE type <> 'table'") == [0]
    assert _values(output, "SELECT length(b) FROM loose") == [0]


def _refused(path: Path) -> Iterator[tuple[Path, bytes, str]]:
    whole = gzip.decompress((DATA / "rank0.sqlite.gz").read_bytes())
    yield path / "short.sqlite", whole[:9000], "truncated"
    yield path / "empty.sqlite", b"", "empty"
    yield path / "foreign.sqlite", b"hello" * 100, "is not a SQLite file"
    yield path / "packed.sqlite.gz", gzip.compress(whole)[:2000], "truncated"
    yield path / "broken.sqlite", whole[:4096] + b"\xff" * (len(whole) - 4096), "damaged"


def test_refusals_name_the_file(tmp_path: Path) -> None:
    for path, content, reason in _refused(tmp_path):
        path.write_bytes(content)
        with pytest.raises(ReportError, match=reason) as refused:
            scrub_reports([path], tmp_path / "out")
        assert path.name in str(refused.value)
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("keep", "also", "said"),
    [(("everything",), (), "--keep everything is unknown"), ((), ("x",), "at least 3 characters")],
)
def test_refused_wishes(keep: tuple[str, ...], also: tuple[str, ...], said: str) -> None:
    with pytest.raises(GpuProfileError, match=said):
        make_scrub_options(keep, also)


def test_the_original_is_no_output(report: Path) -> None:
    with pytest.raises(GpuProfileError, match="is a report to read, and would be lost"):
        scrub_reports([report], report)


@pytest.mark.parametrize(
    ("report", "copy"),
    {
        "rank0.gpu7.sqlite.gz": "rank0.sqlite.gz",
        "rank0.gpu7.2.sqlite": "rank0.host.2.sqlite",
        "rank12.gpu7.corp.example.sqlite": "rank12.sqlite",
        "rank0.10.0.0.7.sqlite": "rank0.sqlite",
        "rank0.10.0.0.7.3.sqlite": "rank0.host.3.sqlite",
        "report1.sqlite": "report1.sqlite",
    }.items(),
)
def test_a_copy_keeps_its_rank_and_window_and_loses_its_host(report: str, copy: str) -> None:
    assert _name_copy(report) == copy


@pytest.mark.further
def test_a_text_beyond_all_measure_is_left_out_and_said(report: Path, tmp_path: Path) -> None:
    """200 MB of a kernel's name took minutes and gigabytes. A cut text could end in a secret."""
    longest = "k" * (LONGEST_COPIED - len(JWT) - 1) + f" {JWT}"
    kept = "UPDATE StringIds SET value = ? WHERE id = (SELECT demangledName FROM {} LIMIT 1)"
    with closing(sqlite3.connect(report)) as plant:
        plant.execute(kept.format("CUPTI_ACTIVITY_KIND_KERNEL"), (f"k{longest}",))
        plant.execute(
            "INSERT INTO META_DATA_CAPTURE (name, value) VALUES ('PROCESS_0:ARGUMENT_11', ?)",
            (longest,),
        )
        plant.commit()
    lines: list[str] = []
    scrub_reports([report], tmp_path / "copies", notify=lines.append)
    note = "note: rank0.trainbox-17.sqlite: texts longer than 1,048,576 bytes are left out"
    assert lines == ["scrubbing rank0.trainbox-17.sqlite", note]
    (copy,) = (tmp_path / "copies").iterdir()
    assert copy.stat().st_size < report.stat().st_size - LONGEST_COPIED + 50_000
    with closing(sqlite3.connect(copy)) as scrubbed:
        assert scrubbed.execute(
            "SELECT value FROM StringIds WHERE id ="
            " (SELECT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1)"
        ).fetchone() == ("<removed>",)
        (text,) = scrubbed.execute(
            "SELECT value FROM META_DATA_CAPTURE WHERE name = 'PROCESS_0:ARGUMENT_11'"
        ).fetchone()
    assert text.startswith("kkk")
    assert JWT not in text
