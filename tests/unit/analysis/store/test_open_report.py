"""Reports that lie in an S3 bucket: read by every verb that reads, with moto's server for S3."""

import gzip
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpu_profile
from gpu_profile.analysis.store.files.open_report import open_report
from gpu_profile.errors import ReportError
from tests.invoked import invoke

PLACE = "s3://reports/run-1/rank2.sqlite.gz"


@pytest.fixture(scope="module")
def packed(short_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("near") / "rank2.sqlite.gz"
    with (short_run / "rank2.sqlite").open("rb") as plain, gzip.open(path, "wb") as file:
        shutil.copyfileobj(plain, file)
    return path


@pytest.fixture(scope="module")
def bucket(packed: Path) -> Iterator[None]:
    """A server on loopback with one report in it, and an environment that sends boto3 there."""
    import boto3  # it takes 0.2 s in each process that collects the tests

    server = pytest.importorskip("moto.server", reason="moto is a development requirement")
    stand_in = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    stand_in.start()
    host, port = stand_in.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        store = boto3.client("s3")
        store.create_bucket(Bucket="reports")
        store.upload_file(str(packed), "reports", "run-1/rank2.sqlite.gz")
        yield
    stand_in.stop()


@pytest.mark.further
def test_the_same_tables_as_of_a_file(bucket: None, packed: Path, tmp_path: Path) -> None:
    words = ("stats", "--format=csv", "--table=cuda_gpu_kern_sum")
    near = invoke(*words, f"--report={packed}", directory=tmp_path)
    far = invoke(*words, f"--report={PLACE}", directory=tmp_path)
    assert (far.returncode, far.stdout) == (0, near.stdout), far.stderr


@pytest.mark.further
def test_a_timeline_of_it(bucket: None, tmp_path: Path) -> None:
    done = invoke("timeline", f"--report={PLACE}", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "timeline.perfetto-trace.gz").stat().st_size > 10_000


def test_the_api_opens_it(bucket: None, packed: Path) -> None:
    near, far = gpu_profile.open(packed), gpu_profile.open(PLACE)
    assert far.ranks == (2,)
    assert far.table("step_sum").rows == near.table("step_sum").rows


@pytest.mark.parametrize("name", ["..", ".", "", "-o", ".hidden.sqlite", "a\x1b[2Jb.sqlite"])
def test_a_name_that_no_report_has_is_refused(name: str) -> None:
    with (
        pytest.raises(ReportError, match="is not a name of a report"),
        open_report(f"s3://reports/{name}"),
    ):
        raise AssertionError("it was opened")


def test_a_prefix_is_a_run_of_several_ranks(bucket: None, short_run: Path, tmp_path: Path) -> None:
    """A named baseline: `aws s3 sync RUN s3://reports/main` moves the name."""
    import boto3

    store = boto3.client("s3")
    reports = sorted(short_run.glob("rank*.sqlite"))[:2]
    for path in reports:
        store.upload_file(str(path), "reports", f"main/{path.name}")
    store.put_object(Bucket="reports", Key="main/page.html", Body=b"")
    store.put_object(Bucket="reports", Key="main/older/rank0.sqlite", Body=b"")
    new = tmp_path / "new"
    new.mkdir()
    for path in reports:
        shutil.copy(path, new / path.name)
    words = ("stats", "--table=step_sum", "--format=csv")
    near, far = (
        invoke(*words, f"--report={place}", directory=tmp_path)
        for place in (new, "s3://reports/main")
    )
    assert (far.returncode, far.stdout) == (0, near.stdout), far.stderr
    done = invoke(*("compare", "--base=s3://reports/main/", f"--new={new}"), directory=tmp_path)
    assert (done.returncode, done.stdout[:6]) == (0, "step: "), done.stderr
    none = invoke("stats", "--report=s3://reports/gone", directory=tmp_path)
    assert (none.returncode, "s3://reports/gone holds no report" in none.stderr) == (6, True)


def test_what_is_not_there_is_a_line(bucket: None, tmp_path: Path) -> None:
    refused = invoke("stats", f"--report={PLACE}x", directory=tmp_path)
    assert refused.returncode == 6
    assert f"error: {PLACE}x cannot be read: " in refused.stderr
    scrub = invoke("scrub", f"--report={PLACE}", directory=tmp_path)
    assert scrub.returncode == 6
    assert "Traceback" not in refused.stderr + scrub.stderr
