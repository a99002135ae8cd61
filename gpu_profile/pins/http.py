"""Fetch from the web what the lock needs: texts, checksums, tags of git repositories."""

import base64
import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

from gpu_profile.errors import ToolError
from gpu_profile.redact import split_url

if TYPE_CHECKING:
    import urllib.request

Fetch: TypeAlias = Callable[[str], AbstractContextManager[IO[bytes]]]
"""A function from URL to open body. Raises ToolError if the URL cannot be read."""
_CHUNK, _TIMEOUT_S = 1 << 20, 60
_TEXT_LIMIT = 64 << 20


def make_fetch(*, ca_bundle: str = "", proxies: Mapping[str, str] | None = None) -> Fetch:
    """Return a Fetch that uses urllib. `proxies` by scheme override those of the environment."""
    import ssl  # with urllib 25 ms, and every verb imports this file
    import urllib.error
    import urllib.request

    context = ssl.create_default_context(cafile=ca_bundle or None)
    handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=context)]
    if proxies:
        all_proxies = {**urllib.request.getproxies(), **{k: v for k, v in proxies.items() if v}}
        handlers.append(urllib.request.ProxyHandler(all_proxies))
    director = urllib.request.build_opener(*handlers)

    @contextlib.contextmanager
    def fetch(url: str) -> Iterator[IO[bytes]]:
        try:
            if "://" not in url:
                with Path(url).open("rb") as file:
                    yield file
                return
            if not url.startswith(("https://", "http://")):
                raise ToolError(f"{url} is neither http nor https", "Use a URL or a path")
            with director.open(_make_request(url), timeout=_TIMEOUT_S) as body:
                yield body
        except (OSError, ValueError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise ToolError(
                f"{split_url(url).plain} cannot be read: {reason}",
                "Set the component's _URL to a mirror of it",
            ) from error

    return fetch


def _make_request(url: str) -> "urllib.request.Request":
    """Return the request. urllib takes no user and password in a URL: a header has them."""
    import urllib.request

    login = split_url(url)
    request = urllib.request.Request(login.plain)
    if login.user or login.password:
        text = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
        # Unredirected: a mirror may lead to a store of another owner, who must not get the
        # password.
        request.add_unredirected_header("Authorization", f"Basic {text}")
    return request


def fetch_text(fetch: Fetch, url: str) -> str:
    """Return the text behind a URL, cut where it is larger than any page that is read here."""
    with fetch(url) as body:
        # A server that sends without an end must not fill the memory.
        return body.read(_TEXT_LIMIT).decode(errors="replace")


def fetch_sha256(fetch: Fetch, url: str) -> str:
    """Return the SHA-256 of the body, read as a stream: an installer has 650 MB."""
    digest = hashlib.sha256()
    with fetch(url) as body:
        while chunk := body.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def git_refs(fetch: Fetch, repository: str) -> dict[str, str]:
    """Return the commit of each ref of a repository over HTTP(S), without git.

    It reads the pkt-lines of git's smart protocol and the tab-separated lines of the dumb one
    (git-scm.com/docs/http-protocol, "Discovering References"). A tag's peeled commit replaces the
    tag's own.
    """
    base = repository.rstrip("/")
    try:
        refs = _parse_refs(fetch_text(fetch, f"{base}/info/refs?service=git-upload-pack"))
    except ToolError:
        if base.endswith(".git"):
            raise
        refs = _parse_refs(fetch_text(fetch, f"{base}.git/info/refs?service=git-upload-pack"))
    if not refs:
        raise ToolError(f"{repository} answers, but not as a git repository", "See the _URL")
    peeled = {ref.removesuffix("^{}"): sha for ref, sha in refs.items() if ref.endswith("^{}")}
    return {ref: sha for ref, sha in refs.items() if not ref.endswith("^{}")} | peeled


_REF = re.compile(r"(?:0000)?(?:[0-9a-f]{4})?([0-9a-f]{40})[ \t]([^\s\0]+)")


def _parse_refs(advertisement: str) -> dict[str, str]:
    """Return the refs of either protocol. A smart answer may begin with a flush packet."""
    matches = map(_REF.match, advertisement.splitlines())
    return {match[2]: match[1] for match in matches if match}
