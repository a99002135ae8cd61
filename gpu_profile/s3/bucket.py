"""Ask S3 with the credentials and endpoint that boto3 finds on this machine.

    bucket.py check s3://BUCKET/PREFIX   whether the bucket is there, and credentials for it are
    bucket.py sign s3://BUCKET/KEY       {"numbers": [1], "several": false, "upload": ""} on stdin
    bucket.py complete s3://BUCKET/KEY   {"upload": …, "etags": […]} on stdin
    bucket.py abort s3://BUCKET/KEY      {"upload": …} on stdin
    bucket.py get s3://BUCKET/PREFIX NAME…   a tar of these objects on standard output
    bucket.py put s3://BUCKET/KEY FILE

Launchers run it as a program, by its path: it imports no sibling. `sign` prints the URLs as JSON:
whoever has one may write that part for an hour, so they are never shown and never an argument.
"""

import contextlib
import itertools
import json
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_VALID_S = 3600  # at 19 kB/s a part of 64 MiB takes as long
# A prefix that is not a run's may hold millions of objects, at 1,000 a request.
_MOST_NAMES = 10_000


class BucketError(Exception):
    """What S3 or boto3 said, in one line."""


@contextlib.contextmanager
def _naming_errors() -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError, ValueError) as error:
        raise BucketError(" ".join(str(error).split())) from error


def split_address(address: str) -> tuple[str, str]:
    """Return bucket and key of `s3://team/night/rank0.sqlite`."""
    bucket, _, key = address.removeprefix("s3://").partition("/")
    return bucket, key


def download(address: str, file: Path) -> None:
    """Write an object to a file. Raises BucketError."""
    import boto3

    with _naming_errors():
        boto3.client("s3").download_file(*split_address(address), str(file))


def list_names(address: str) -> list[str]:
    """Return the names right below `s3://team/main`: `rank0.node.sqlite`. Raises BucketError."""
    import boto3

    bucket, key = split_address(address)
    prefix = f"{key.rstrip('/')}/" if key.strip("/") else ""
    with _naming_errors():
        pages = boto3.client("s3").get_paginator("list_objects_v2")
        replies = pages.paginate(Bucket=bucket, Prefix=prefix, Delimiter="/")
        rows = (row for reply in replies for row in reply.get("Contents", ()))
        return [row["Key"][len(prefix) :] for row in itertools.islice(rows, _MOST_NAMES)]


def _open_client(bucket: str) -> Any:  # noqa: ANN401 - boto3 has no types
    """Return a client of the bucket's own region: a signed URL is valid there alone.

    Without `when_required` boto3 signs a checksum into the URL, which the pod would have to send.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import ClientError

    client = boto3.client("s3")
    try:
        answer = client.head_bucket(Bucket=bucket)
    except ClientError as error:  # the right to ask may lack; the answer names the region anyway
        answer = error.response
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    config = Config(signature_version="s3v4", request_checksum_calculation="when_required")
    return boto3.client("s3", region_name=headers.get("x-amz-bucket-region"), config=config)


def check_bucket(address: str) -> None:
    """Raise BucketError without credentials, or without such a bucket.

    403 is no answer: the right to list may lack where the right to write is there.
    """
    import boto3
    from botocore.exceptions import ClientError

    bucket, _ = split_address(address)
    try:
        boto3.client("s3").head_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] == "404":
            raise BucketError(f"there is no bucket {bucket}") from error


def sign_parts(address: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return `upload`, the id of an upload of several parts, a URL for each number, and `ca`."""
    bucket, key = split_address(address)
    where = {"Bucket": bucket, "Key": key}
    client, ca = _open_client(bucket), _read_certificates()
    if not request["several"]:
        url = client.generate_presigned_url("put_object", Params=where, ExpiresIn=_VALID_S)
        return {"upload": "", "urls": [url], "ca": ca}
    if not request["upload"]:
        _abort_left(client, where)
    upload = request["upload"] or client.create_multipart_upload(**where)["UploadId"]
    part = {**where, "UploadId": upload}
    urls = [
        client.generate_presigned_url(
            "upload_part", Params={**part, "PartNumber": number}, ExpiresIn=_VALID_S
        )
        for number in request["numbers"]
    ]
    return {"upload": upload, "urls": urls, "ca": ca}


def _abort_left(client: Any, where: dict[str, str]) -> None:  # noqa: ANN401 - boto3 has no types
    """Give up the uploads of this key that a killed fetch left: S3 keeps their parts, and bills
    them, until then. Whoever may write need not be allowed to list: they are left then.
    """
    from botocore.exceptions import ClientError

    with contextlib.suppress(ClientError):
        pages = client.get_paginator("list_multipart_uploads")
        replies = pages.paginate(Bucket=where["Bucket"], Prefix=where["Key"])
        for upload in (row for reply in replies for row in reply.get("Uploads", ())):
            if upload["Key"] == where["Key"]:
                client.abort_multipart_upload(**where, UploadId=upload["UploadId"])


def _read_certificates() -> str:
    """Return the certificates that this machine trusts AWS by, for images that have none."""
    import botocore
    import botocore.session

    named = botocore.session.get_session().get_config_variable("ca_bundle")
    path = Path(named or Path(botocore.__file__).with_name("cacert.pem"))
    return path.read_text(encoding="ascii", errors="ignore") if path.exists() else ""


def complete_upload(address: str, upload: str, etags: Sequence[str]) -> None:
    """Join the parts, whose `etags` stand in their order. Raises BucketError."""
    bucket, key = split_address(address)
    parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(etags, 1)]
    _open_client(bucket).complete_multipart_upload(
        Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts}
    )


def abort_upload(address: str, upload: str) -> None:
    """Give up an upload, so that S3 removes its parts. Raises BucketError."""
    bucket, key = split_address(address)
    _open_client(bucket).abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)


def _pack(address: str, names: Sequence[str]) -> None:
    bucket, prefix = split_address(address)
    client = _open_client(bucket)
    # `w|` writes a stream: standard output cannot seek.
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        for name in names:
            reply = client.get_object(Bucket=bucket, Key=f"{prefix}/{name}")
            member = tarfile.TarInfo(name)
            member.size = reply["ContentLength"]
            archive.addfile(member, reply["Body"])


def _upload(address: str, file: str) -> None:
    bucket, key = split_address(address)
    _open_client(bucket).upload_file(file, bucket, key)


def _run(verb: str, address: str, *words: str) -> None:
    if verb == "get":
        _pack(address, words)
    elif verb == "put":
        _upload(address, *words)
    elif verb == "check":
        check_bucket(address)
    else:
        request = json.load(sys.stdin)
        if verb == "sign":
            print(json.dumps(sign_parts(address, request)))
        elif verb == "complete":
            complete_upload(address, request["upload"], request["etags"])
        else:
            abort_upload(address, request["upload"])


def answer_call(argv: Sequence[str]) -> int:
    """Run a call of the command line. Returns its exit code: 3, with a line, for an error."""
    try:
        with _naming_errors():
            _run(*argv)
    except (BucketError, OSError) as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    raise SystemExit(answer_call(sys.argv[1:]))
