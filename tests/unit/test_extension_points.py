"""A component, a table and a finding are one file each: a toy one of each in a copy works."""

import json
import threading
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.further import further
from tests.project_copy import invoke_copy, run_tests_of_copy


def run(toy_project: Path, *words: str) -> str:
    result = invoke_copy(toy_project, *words)
    assert result.returncode == 0, result.last_line
    return result.stdout


TOY_SETTINGS = (
    *("INSTALL_TOY=true", "NSYS_SOURCE=debian", "INSTALL_TORCH=none"),
    f"BASE_IMAGE=debian:13@sha256:{'0' * 64}",
)


def make_flags(*settings: str) -> tuple[str, ...]:
    return tuple(word for setting in (*TOY_SETTINGS, *settings) for word in ("--set", setting))


@pytest.mark.further
def test_a_component_has_settings(toy_project: Path) -> None:
    assert json.loads(run(toy_project, "config", "--format", "json"))["TOY_VERSION"] == {
        "value": "v1.0",
        "source": "default",
    }
    template = run(toy_project, "config", "--format", "env")
    assert "# --- Toy, which plays\n# the toy\nINSTALL_TOY=false\n" in template


def test_a_component_is_a_stage_of_the_dockerfile(toy_project: Path) -> None:
    text = run(toy_project, "render", *make_flags())
    assert "FROM base AS toy\n" in text
    assert "setup.d/65-toy.sh" in text
    assert 'ENV TOY_HOME="/opt/toy"' in text
    assert '"--version=toy=cat /opt/toy/version"' in text
    assert 'LABEL io.github.gpu-profile.toy-version="v1.0"' in text
    assert "toy" not in run(toy_project, "render", *make_flags("INSTALL_TOY=false"))


SOURCES = b"the toy's sources"


class Archive(BaseHTTPRequestHandler):
    """Serves the toy's sources under every name."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(SOURCES)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def archive_url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Archive) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/toy.tar.gz"
        server.shutdown()


@pytest.mark.further
def test_the_lock_has_the_checksum_of_a_component(toy_project: Path, archive_url: str) -> None:
    run(toy_project, "lock", *make_flags(f"TOY_URL={archive_url}"))
    text = (toy_project / "gpu-profile.lock").read_text()
    (toy_project / "gpu-profile.lock").unlink()
    assert f"pinned TOY_SHA256 = {sha256(SOURCES).hexdigest()}" in text


def test_a_component_refuses_what_it_does_not_work_with(toy_project: Path) -> None:
    refusal = invoke_copy(toy_project, "render", *make_flags("BASE_IMAGE=debian:9"))
    assert refusal.returncode == 2
    assert (
        "Toy 1.0 does not run on Debian 9: its library is too new (example.org" in refusal.last_line
    )
    refusal = invoke_copy(toy_project, "render", *make_flags("INSTALL_MPI=false"))
    assert refusal.returncode == 2
    assert "INSTALL_TOY needs INSTALL_MPI" in refusal.last_line


def test_a_table_is_listed(toy_project: Path) -> None:
    lines = run(toy_project, "stats", "--list").splitlines()
    (line,) = [line for line in lines if line.startswith("toy_sum ")]
    assert line.split(maxsplit=2)[1:] == ["gpu-profile", "GPU operations of each rank, counted"]


@pytest.mark.parametrize("form", ["text", further("csv"), "json"])
def test_a_table_is_printed_in_each_format(toy_project: Path, short_run: Path, form: str) -> None:
    words = ("stats", "--table", "toy_sum", "--report", str(short_run), "--format", form)
    text = run(toy_project, *words)
    if form == "json":
        assert [row["Rank"] for row in json.loads(text)["toy_sum"]] == [0, 1, 2, 3]
    else:
        assert "Operations" in text


def test_a_finding_is_told_with_its_evidence(toy_project: Path, short_run: Path) -> None:
    words = ("diagnose", "--report", str(short_run / "rank0.sqlite"))
    told = "toy: play\n   - it has 3 steady steps\n   - it made 248 of 248 copies\n"
    assert told in run(toy_project, *words)
    findings = json.loads(run(toy_project, *words, "--format", "json"))["findings"]
    (toy,) = [finding for finding in findings if finding["kind"] == "toy"]
    assert (toy["ranks"], toy["cause"], toy["advice"]) == ([0], "play", "Go on playing.")


@pytest.mark.further
def test_a_finding_has_its_title_on_the_page(
    toy_project: Path, short_run: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    run(toy_project, "html", "--report", str(short_run / "rank0.sqlite"), "--output", str(page))
    assert ". Steps to play with</span>" in page.read_text()


@pytest.mark.further
def test_pages_are_generated_with_what_was_added(toy_project: Path) -> None:
    renewal = run_tests_of_copy(
        toy_project, "tests/unit/test_readme.py", "-k", "generated_parts", GOLDEN="write"
    )
    assert renewal.returncode == 0, renewal.last_line
    tables = (toy_project / "docs/reading.md").read_text()
    assert "| `toy_sum` | GPU operations of each rank, counted |" in tables
    settings = (toy_project / "docs/settings.md").read_text()
    assert "| `TOY_VERSION` | `v1.0` | tag of the toy |" in settings
    assert "| `TOY_SHELL` | `sh` | Shell of the toy's jobs |" in settings
    findings = (toy_project / "docs/findings.md").read_text()
    assert "| `toy` | `play` | a rank has steps |" in findings
