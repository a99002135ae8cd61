"""Read the artifact of a run from GitHub, and write a comment, with the standard library alone.

    github.py fetch RUN_ID ARTIFACT FILE    ci.json of the run's newest artifact of this name
    github.py post HEAD_SHA FILE            the file as the comment on the pull requests of a commit

GITHUB_API_URL, GITHUB_REPOSITORY and GITHUB_TOKEN are the runner's.
"""

import io
import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MEMBER = "ci.json"
MOST_BYTES = 1 << 20
MOST_ANSWER = 32 << 20
"""A page of 100 pull requests or comments, each with a text of at most 65,536 characters."""
# 100 is the most that the API gives in a page.
MOST_PAGES, PAGE = 10, 100
MOST_PULLS = 3
MARK = "<!-- gpu-profile ci -->"
# Whoever comments can write MARK, too. With the runner's token only the runner has this name.
AUTHOR = "github-actions[bot]"


METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What actions/upload-artifact writes. LZMA may ask for a dictionary of 4 GB."""
UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, OSError, EOFError),
    *(KeyError, ValueError, NotImplementedError, RuntimeError),
)
"""What zipfile raises for a damaged or encrypted archive."""


class Refusal(Exception):
    """What cannot be done, in one line."""


def send(method: str, path: str, body: object | None = None) -> bytes:
    """Call the API and return its answer, of at most 32 MB."""
    data = None if body is None else json.dumps(body).encode()
    url = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}"
    request = urllib.request.Request(url, data=data, method=method)
    request.add_header("Accept", "application/vnd.github+json")
    # An artifact is after a redirection to another server, which must not get the token.
    request.add_unredirected_header("Authorization", f"Bearer {os.environ['GITHUB_TOKEN']}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text: bytes = answer.read(MOST_ANSWER + 1)
    except (urllib.error.URLError, OSError) as error:
        raise Refusal(f"{method} {path}: {error}") from error
    if len(text) > MOST_ANSWER:
        raise Refusal(f"{method} {path}: the answer has more than 32 MB")
    return text


def list_pages(path: str) -> Iterator[Any]:
    """Yield the entries of a list that comes in pages."""
    sign = "&" if "?" in path else "?"
    for page in range(1, MOST_PAGES + 1):
        entries = json.loads(send("GET", f"{path}{sign}per_page={PAGE}&page={page}"))
        yield from entries
        if len(entries) < PAGE:
            return


def fetch(run_id: str, artifact: str, target: Path) -> None:
    """Write ci.json of the newest artifact of this name; no other member is looked at."""
    # It becomes a part of a URL.
    if not re.fullmatch(r"[0-9]{1,20}", run_id):
        raise Refusal(f"{run_id!r} is not a run")
    name = urllib.parse.quote(artifact, safe="")
    path = f"actions/runs/{run_id}/artifacts?name={name}&per_page={PAGE}"
    artifacts = json.loads(send("GET", path))["artifacts"]
    live = [
        int(item["id"]) for item in artifacts if item["name"] == artifact and not item["expired"]
    ]
    if not live:
        raise Refusal(
            f"run {run_id} has no artifact {artifact!r}: its job did not come to an answer"
        )
    data = send("GET", f"actions/artifacts/{max(live)}/zip")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if archive.getinfo(MEMBER).compress_type not in METHODS:
                raise ValueError("it is packed by another method")
            with archive.open(MEMBER) as member:
                text = member.read(MOST_BYTES + 1)
    except UNREADABLE as error:
        raise Refusal(f"artifact {artifact!r} holds no readable {MEMBER}") from error
    if len(text) > MOST_BYTES:
        raise Refusal(f"{MEMBER} of artifact {artifact!r} has more than {MOST_BYTES} bytes")
    target.write_bytes(text)


def find_pulls(sha: str) -> list[int]:
    """Return the open pull requests whose head is this commit, forks' too."""
    if not re.fullmatch(r"[0-9a-f]{40}", sha):
        raise Refusal(f"{sha!r} is not a commit")
    pulls = list_pages("pulls?state=open&sort=updated&direction=desc")
    return [int(pull["number"]) for pull in pulls if pull["head"]["sha"] == sha]


def post(sha: str, comment: Path) -> None:
    """Write the comment, or change the one that is there. It ends with the commit, for the comment
    of an earlier one stays where a later run has no answer.
    """
    text = f"{comment.read_text(encoding='utf-8').rstrip()} Measured at commit {sha}.\n"
    pulls = find_pulls(sha)
    if not pulls:
        print(f"no open pull request has {sha} as its head: there is nothing to comment on")
    for pull in pulls[:MOST_PULLS]:
        comment_ids = [
            int(entry["id"])
            for entry in list_pages(f"issues/{pull}/comments")
            if entry["user"]["login"] == AUTHOR and entry["body"].startswith(MARK)
        ]
        if comment_ids:
            send("PATCH", f"issues/comments/{comment_ids[0]}", {"body": text})
        else:
            send("POST", f"issues/{pull}/comments", {"body": text})
        print(f"pull request {pull} has the comment")


def main(words: list[str]) -> None:
    try:
        if words[:1] == ["fetch"] and len(words) == 4:
            fetch(words[1], words[2], Path(words[3]))
        elif words[:1] == ["post"] and len(words) == 3:
            post(words[1], Path(words[2]))
        else:
            raise Refusal("use fetch RUN_ID ARTIFACT FILE, or post HEAD_SHA FILE")
    except (Refusal, ValueError, KeyError, TypeError) as error:
        sys.exit(f"error: {error!s}.".replace("\n", " "))


if __name__ == "__main__":
    main(sys.argv[1:])
