"""What AWS refuses: one line, exit 7, and nothing half-recorded."""

import base64
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpu_profile.errors import RegistryError
from gpu_profile.registry import address, push
from gpu_profile.registry import ecr as registry
from tests.live.registry.conftest import (
    ACCOUNT,
    ECR,
    REGION,
    Refused,
    Registry,
    Server,
    free_port,
    stored_digest,
    tell_ecr,
)

pytestmark = [pytest.mark.registry, pytest.mark.docker]


def test_tag_taken_and_immutable(
    where: address.Registry,
    real_registry: Registry,
    make_image: Callable[..., None],
    ecr: Any,
    refused: Refused,
) -> None:
    ref = real_registry.ref("gpu-profile")
    make_image(ref)
    first = push.push_image(ref, where, show=print)
    tell_ecr(ecr, ref, first.digest)
    make_image(ref)
    line = refused(ref, where)
    assert "is taken by sha256:" in line
    assert line.endswith("immutable. Give VERSION another value, or VERSION=auto.")
    assert stored_digest(real_registry, "gpu-profile") == first.digest


def test_tag_taken_and_mutable_is_moved(
    where: address.Registry,
    real_registry: Registry,
    make_image: Callable[..., None],
    ecr: Any,
) -> None:
    ref = real_registry.ref("gpu-profile")
    make_image(ref)
    first = push.push_image(ref, where, show=print, upload=push.Upload(immutable=False))
    tell_ecr(ecr, ref, first.digest)
    make_image(ref)
    second = push.push_image(ref, where, show=print)
    assert second.digest == stored_digest(real_registry, "gpu-profile") != first.digest


def test_region_without_ecr(
    real_registry: Registry,
    make_image: Callable[..., None],
    refused: Refused,
    monkeypatch: pytest.MonkeyPatch,
    ecr_api: Server,
) -> None:
    """A region that is none has no host; a closed port stands for that here."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    ref = real_registry.ref("gpu-profile")
    make_image(ref)
    wrong = address.parse_registry(
        real_registry.address, ecr_registry=ECR.replace(REGION, "us-eats-1")
    )
    line = refused(ref, wrong)
    assert line.startswith("No ECR answers for the region us-eats-1")
    assert line.endswith("Did you mean us-east-1?")


def test_another_region_has_its_own_repositories(
    where: address.Registry,
    real_registry: Registry,
    make_image: Callable[..., None],
    refused: Refused,
    ecr_api: Server,
) -> None:
    """Pushed to one region, asked of another: ECR there knows nothing of it."""
    ref = real_registry.ref("gpu-profile")
    make_image(ref)
    push.push_image(ref, where, show=print)
    other = address.parse_registry(
        real_registry.address, ecr_registry=ECR.replace(REGION, "eu-west-1")
    )
    with pytest.raises(RegistryError, match=f"{ACCOUNT} in eu-west-1: .*gpu-profile.* not exist"):
        registry.tag_digest(other, "gpu-profile", "v1")


Reply = tuple[int, dict[str, object]]


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, ecr_api: Server) -> Iterator[list[Reply]]:
    """A stand-in that answers in AWS's form what moto cannot: the first reply first, the last one
    for ever. (moto's own refusals of a signature are XML, which ECR's protocol is not.)"""
    replies: list[Reply] = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, body = replies.pop(0) if len(replies) > 1 else replies[0]
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        yield replies
        server.shutdown()


REFUSALS = {
    "ExpiredTokenException": "The AWS session has expired. Renew it, as with `aws sso login`.",
    "AccessDeniedException": (
        "AWS does not allow ecr:DescribeRepositories: said so. Ask for a policy that does."
    ),
    "UnrecognizedClientException": (
        "AWS does not know these credentials (UnrecognizedClientException). "
        "See AWS_PROFILE and AWS_* here."
    ),
    "ServerException": (
        "ecr:DescribeRepositories of 123456789012 in us-east-1: said so. See REGISTRY and IMAGE."
    ),
}


def test_refusals(
    aws: list[Reply],
    where: address.Registry,
    real_registry: Registry,
    make_image: Callable[..., None],
    refused: Refused,
) -> None:
    ref = real_registry.ref("gpu-profile")
    make_image(ref)
    for code, line in REFUSALS.items():
        aws[:] = [(400, {"__type": code, "message": "said so"})]
        assert refused(ref, where) == line


def test_throttling_passes(aws: list[Reply], where: address.Registry) -> None:
    token = base64.b64encode(b"AWS:secret").decode()
    throttled: Reply = (400, {"__type": "ThrottlingException", "message": "Rate exceeded"})
    aws += [throttled, throttled, (200, {"authorizationData": [{"authorizationToken": token}]})]
    auth = registry.fetch_authorization(where)
    assert auth is not None
    assert (auth.username, auth.password) == ("AWS", "secret")
    assert "secret" not in repr(auth)


@pytest.mark.slow
def test_throttling_that_stays(aws: list[Reply], where: address.Registry) -> None:
    aws.append((400, {"__type": "ThrottlingException", "message": "Rate exceeded"}))
    with pytest.raises(RegistryError, match="AWS throttles ecr:GetAuthorizationToken after 6"):
        registry.fetch_authorization(where)


def test_no_credentials(
    where: address.Registry,
    real_registry: Registry,
    make_image: Callable[..., None],
    refused: Refused,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    ref = real_registry.ref("gpu-profile")
    make_image(ref)
    assert refused(ref, where).startswith("There are no AWS credentials here.")
