"""Push and pull through the engine, with credentials for each call, retries, and a digest."""

import re
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine import api
from gpu_profile.engine.api import EngineRefusal, LayerEvent
from gpu_profile.errors import RegistryError
from gpu_profile.registry import ecr
from gpu_profile.registry.address import Registry
from gpu_profile.registry.digests import save_digest, with_digest

Show = Callable[[LayerEvent], None]
_DELAYS_S = (1.0, 2.0, 4.0, 8.0)
_PASSING = re.compile(
    r"toomanyrequests|too many requests|rate exceeded|throttl|connection re(?:set|fused)|\bEOF\b"
    r"|broken pipe|timeout|timed out|TLS handshake|blob upload|temporar|bad gateway"
    r"|service unavailable|internal server error|\b50[0234]\b|server misbehaving",
    re.IGNORECASE,
)
"""Errors that a second attempt may not meet: lost connections, and registries under load."""
_MEANINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"cannot be overwritten|tag invalid|immutable",
        "the tag is taken and immutable",
        "Give VERSION another value, or VERSION=auto",
    ),
    (r"token.*expired", "its token has expired", "Try again"),
    (
        r"no basic auth|unauthorized|authentication required|incorrect username",
        "it does not accept the credentials",
        "`docker login` there, or see AWS_PROFILE",
    ),
    (r"denied|forbidden", "it does not permit this", "Ask for the right to push and pull there"),
    (
        r"name unknown|repository .* does not exist|name_unknown",
        "it has no such repository",
        "Create it there, or see IMAGE and the region in REGISTRY",
    ),
    (r"manifest unknown|not found", "it has no such image", "`invoke push` puts it there"),
    (
        r"server gave HTTP response to HTTPS",
        "it speaks plain HTTP",
        "Add it to the engine's insecure-registries",
    ),
    (
        r"x509|certificate",
        "its certificate is not trusted",
        "Put its authority into /etc/docker/certs.d",
    ),
    (r"no such host|lookup .* on ", "its name does not resolve", "See REGISTRY"),
    (
        r"connection refused|no route|i/o timeout|EOF|reset by peer|broken pipe",
        "it cannot be reached",
        "See that it is up, then push again: layers that arrived are kept",
    ),
)
"""(pattern of an engine's or registry's message, meaning, hint). The first match counts."""


@dataclass(frozen=True, kw_only=True)
class Upload:
    """How an image is pushed.

    `immutable` and `scan` are settings of a repository that push creates. `named_by_inputs`: the
    tag is a hash of the image's inputs (VERSION=auto), so that a tag that exists needs no push.
    """

    immutable: bool = True
    scan: bool = True
    named_by_inputs: bool = False
    sleep: Callable[[float], None] = time.sleep


DEFAULT_UPLOAD = Upload()


def push_image(
    ref: ImageRef,
    where: Registry,
    *,
    show: Show,
    upload: Upload = DEFAULT_UPLOAD,
) -> ImageRef:
    """Push the local image `ref` and return it with its digest.

    Raises RegistryError, and records nothing then.
    """
    local = api.local_image(ref)
    if local is None:
        raise RegistryError(f"there is no image {ref} to push", "`invoke build` makes it")
    if where.is_ecr:
        digest = _find_pushed(ref, where, upload, local.digests)
    else:
        digest = _fetch_remote_digest(ref) if upload.named_by_inputs else ""
    digest = digest or _try_until_digest(
        lambda: api.push_layers(ref, ecr.fetch_authorization(where)),
        ref,
        show,
        upload.sleep,
    )
    return with_digest(ref, digest)


def _find_pushed(
    ref: ImageRef, where: Registry, upload: Upload, local_digests: Collection[str]
) -> str:
    """Return the digest of the image if ECR has it, else "", with a repository to push it to.

    Raises RegistryError if another image has its tag for good.
    """
    repository = ecr.ensure_repository(
        where, ref.name, immutable=upload.immutable, scan=upload.scan
    )
    digest = "" if repository.is_new else ecr.tag_digest(where, ref.name, ref.tag)
    if not digest or upload.named_by_inputs or f"{ref.repository}@{digest}" in local_digests:
        return digest
    if repository.immutable:
        # `sha256:` and 12 digits, as docker shows a digest.
        what = f"{ref} is taken by {digest[:19]}… and immutable"
        raise RegistryError(what, "Give VERSION another value, or VERSION=auto")
    return ""


def _fetch_remote_digest(ref: ImageRef) -> str:
    """Return the digest of this tag with the stored credentials; empty if there is none.

    For registries other than ECR. A refusal counts as none.
    """
    try:
        return api.remote_digest(ref, None)
    except EngineRefusal:
        return ""


def publish_image(
    ref: ImageRef,
    where: Registry,
    records: Path,
    *,
    show: Show,
    upload: Upload = DEFAULT_UPLOAD,
) -> ImageRef:
    """Call push_image and record the digest. If it fails, `records` stays unchanged."""
    pushed = push_image(ref, where, show=show, upload=upload)
    save_digest(records, pushed)
    return pushed


def pull_image(
    ref: ImageRef,
    where: Registry,
    *,
    show: Show,
    sleep: Callable[[float], None] = time.sleep,
) -> ImageRef:
    """Pull `ref` from the registry `where` and return it with its digest."""

    def attempt() -> Iterator[LayerEvent]:
        return api.pull_layers(ref, ecr.fetch_authorization(where))

    return with_digest(ref, _try_until_digest(attempt, ref, show, sleep))


def _try_until_digest(
    attempt: Callable[[], Iterator[LayerEvent]],
    ref: ImageRef,
    show: Show,
    sleep: Callable[[float], None],
) -> str:
    """Repeat until there is a digest.

    Each attempt gets new credentials: old ones may have expired.
    """
    # None: nothing follows the last attempt.
    for delay in (*_DELAYS_S, None):
        try:
            return _follow_events(attempt(), ref, show)
        except EngineRefusal as refusal:
            if delay is None or not _PASSING.search(str(refusal)):
                raise explain_refusal(str(refusal), ref) from refusal
            show(LayerEvent(status=f"{refusal}; trying again in {delay:g} s"))
            sleep(delay)
    raise AssertionError("the last try returns or raises")


def _follow_events(events: Iterator[LayerEvent], ref: ImageRef, show: Show) -> str:
    digest = ""
    for event in events:
        digest = event.digest or digest
        show(event)
    if not digest:
        raise RegistryError(f"The engine named no digest of {ref}", "Try again")
    return digest


def explain_refusal(words: str, ref: ImageRef) -> RegistryError:
    """Return the error for a message of the engine or the registry."""
    host = ref.registry or "the registry"
    for pattern, meaning, hint in _MEANINGS:
        if re.search(pattern, words, re.IGNORECASE):
            return RegistryError(f"{host}: {meaning} ({words.strip()})", hint)
    return RegistryError(f"{host}: {words.strip()}", "See the registry's own log")
