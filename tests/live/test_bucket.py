"""Parts of a report go to S3 by signed URLs, without credentials, to moto's server."""

import contextlib
import functools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import boto3
import pytest

from gpu_profile import process
from gpu_profile.carrier import CARRIED_TO
from gpu_profile.command import Command
from gpu_profile.launchers.agent.job_directory import AGENT
from gpu_profile.launchers.kubernetes.reports import to_bucket
from gpu_profile.s3.parts import PART_BYTES
from tests.live.s3_server import start_bucket

NAME, PLACE = "rank0.node.nsys-rep", "s3://reports/night/train-1"
CUT = "s3://reports/night/cut-by-kill"
_SENT_AND_SILENT = 'env -i PATH="$0" "$@" && exec cat "$HELD"'
"""A pod that has sent its parts, and whose answer does not come while $HELD is no end."""
_CLIENT = """
import functools, sys
from pathlib import Path
from gpu_profile import process
from gpu_profile.launchers.kubernetes.reports import to_bucket
from tests.live import test_bucket
place, size = Path(sys.argv[1]), int(sys.argv[2])
call = functools.partial(test_bucket.execute_silently, place)
process.drive(to_bucket.send_files(call, str(place), {test_bucket.NAME: size}, test_bucket.CUT))
"""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with start_bucket("127.0.0.1", "reports", monkeypatch):
        yield boto3.client("s3")


def execute(place: Path, *words: str, stdin: str) -> Command:
    """What runs in a pod, here: with no variable of this process, and the agent in its place."""
    script = [word.replace(CARRIED_TO, str(place)) for word in words]
    return Command(argv=("env", "-i", f"PATH={os.defpath}", *script), stdin=stdin)


def execute_silently(place: Path, *words: str, stdin: str) -> Command:
    script = [word.replace(CARRIED_TO, str(place)) for word in words]
    argv = ("sh", "-c", _SENT_AND_SILENT, os.defpath, *script)
    return Command(argv=argv, stdin=stdin, env={"HELD": str(place / "held")})


def open_for_reader(fifo: Path, client: "subprocess.Popen[bytes]") -> IO[bytes]:
    """Open a FIFO once somebody reads it. Fails where the client has ended before."""
    while True:
        with contextlib.suppress(OSError):  # ENXIO: nobody reads it yet
            return os.fdopen(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK), "wb")
        assert client.poll() is None, "the client ended before the pod had sent its parts"
        time.sleep(0.02)


def test_three_parts_of_a_report_are_one_object(store: Any, tmp_path: Path) -> None:
    (tmp_path / "agent").symlink_to(AGENT)
    with (tmp_path / NAME).open("wb") as file:  # a hole: 128 MB that take no disk
        file.truncate(2 * PART_BYTES)
        file.seek(0, os.SEEK_END)
        file.write(b"the third part")
    sizes = {NAME: (tmp_path / NAME).stat().st_size}
    call = functools.partial(execute, tmp_path)
    assert process.drive(to_bucket.send_files(call, str(tmp_path), sizes, PLACE)) == {}
    report = store.get_object(Bucket="reports", Key=f"night/train-1/{NAME}")
    assert report["ContentLength"] == sizes[NAME]
    assert report["ETag"].strip('"').endswith("-3")
    assert store.list_multipart_uploads(Bucket="reports").get("Uploads", []) == []


def test_what_a_killed_fetch_left_is_given_up_by_the_next(store: Any, tmp_path: Path) -> None:
    """Nothing is lost with it: the pod has the report still. Uploads of other keys stay."""
    (tmp_path / "agent").symlink_to(AGENT)
    with (tmp_path / NAME).open("wb") as file:
        file.truncate(PART_BYTES + 1)
    request = {"numbers": [1, 2], "several": True, "upload": ""}
    for key in (f"{PLACE}/{NAME}", f"{PLACE}/{NAME}.other"):
        left = process.run(to_bucket.call_bucket("sign", key, request=request))
        assert left.returncode == 0, left.stderr
    call = functools.partial(execute, tmp_path)
    sizes = {NAME: PART_BYTES + 1}
    assert process.drive(to_bucket.send_files(call, str(tmp_path), sizes, PLACE)) == {}
    report = store.get_object(Bucket="reports", Key=f"night/train-1/{NAME}")
    assert report["ContentLength"] == PART_BYTES + 1
    uploads = store.list_multipart_uploads(Bucket="reports")["Uploads"]
    assert [upload["Key"] for upload in uploads] == [f"night/train-1/{NAME}.other"]
    given_up = to_bucket.call_bucket(
        "abort", f"{PLACE}/{NAME}.other", request={"upload": uploads[0]["UploadId"]}
    )
    assert process.run(given_up).returncode == 0


def test_a_client_that_is_killed_after_its_parts_leaves_them_to_the_next(
    store: Any, tmp_path: Path
) -> None:
    (tmp_path / "agent").symlink_to(AGENT)
    os.mkfifo(tmp_path / "held")
    size = PART_BYTES + 1
    with (tmp_path / NAME).open("wb") as file:
        file.truncate(size)
    client = subprocess.Popen([sys.executable, "-c", _CLIENT, str(tmp_path), str(size)])
    with open_for_reader(tmp_path / "held", client):  # once the pod has sent its parts
        client.kill()
        assert client.wait() == -9
    (upload,) = store.list_multipart_uploads(Bucket="reports")["Uploads"]
    where = {"Bucket": "reports", "Key": f"night/cut-by-kill/{NAME}"}
    assert len(store.list_parts(**where, UploadId=upload["UploadId"])["Parts"]) == 2
    assert "Contents" not in store.list_objects_v2(Bucket="reports", Prefix="night/cut-by-kill/")
    call = functools.partial(execute, tmp_path)
    assert process.drive(to_bucket.send_files(call, str(tmp_path), {NAME: size}, CUT)) == {}
    assert store.get_object(**where)["ContentLength"] == size
    assert store.list_multipart_uploads(Bucket="reports").get("Uploads", []) == []


def test_a_bucket_that_is_not_there_and_missing_credentials_are_one_line(
    store: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert process.run(to_bucket.call_bucket("check", PLACE)).returncode == 0
    missing = process.run(to_bucket.call_bucket("check", "s3://reportz/night"))
    assert (missing.returncode, missing.stderr) == (3, "there is no bucket reportz\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    nobody = process.run(to_bucket.call_bucket("check", PLACE))
    assert (nobody.returncode, nobody.stderr) == (3, "Unable to locate credentials\n")


def test_what_a_pod_did_not_send_whole_leaves_no_parts(store: Any, tmp_path: Path) -> None:
    (tmp_path / "agent").symlink_to(AGENT)
    call = functools.partial(execute, tmp_path)
    sizes = {NAME: 2 * PART_BYTES}  # and there is no such file
    problems = process.drive(
        to_bucket.send_files(call, str(tmp_path), sizes, "s3://reports/night/cut")
    )
    assert problems == {NAME: f"{NAME}: No such file or directory"}
    assert store.list_multipart_uploads(Bucket="reports").get("Uploads", []) == []
    assert "Contents" not in store.list_objects_v2(Bucket="reports", Prefix="night/cut/")
