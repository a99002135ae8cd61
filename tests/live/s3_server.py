"""moto's server in the place of S3, with one bucket, and an environment that sends boto3 there."""

import contextlib
from collections.abc import Iterator

import boto3
import pytest


@contextlib.contextmanager
def start_bucket(address: str, bucket: str, patch: pytest.MonkeyPatch) -> Iterator[None]:
    server = pytest.importorskip("moto.server", reason="moto is a development requirement")
    stand_in = server.ThreadedMotoServer(ip_address=address, port=0, verbose=False)
    stand_in.start()
    host, port = stand_in.get_host_and_port()
    patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    # moto takes any, but boto3 signs nothing without some.
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        patch.setenv(name, "test")
    patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    try:
        boto3.client("s3").create_bucket(Bucket=bucket)
        yield
    finally:
        stand_in.stop()
