"""A component, a table and a finding are one file each: a toy one of each in a copy works."""

import json
import threading
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.project_copy import ROOT, copy_project, invoke_copy, run_tests_of_copy

REPORT = ROOT / "tests/data/h200x4-ddp/all-ranks-one-report.sqlite.gz"
RANK = ROOT / "tests/data/h200x4-ddp/rank0.sqlite.gz"


def run(project: Path, *words: str) -> str:
    result = invoke_copy(project, *words)
    assert result.returncode == 0, result.said
    return result.stdout


TOY_COMPONENT = '''\
"""Toy: a component of one file."""

from gpu_profile.components.component import (
    Component,
    InstalledVersion,
    Requirement,
    list_source_keys,
    select_values,
)
from gpu_profile.declared.key import make_switch_key, make_text_key
from gpu_profile.declared.rule import Facts, Rule
from gpu_profile.pins.pin_source import make_tree_sources


def _too_old(facts: Facts) -> str:
    return "Toy 1.0 does not run on Debian 11" if facts.base_image == "debian:11" else ""


COMPONENT = Component(
    number=65,
    name="toy",
    doc="Toy, which plays",
    enabled=lambda values: bool(values["INSTALL_TOY"]),
    toggle="INSTALL_TOY",
    keys=(
        make_switch_key("INSTALL_TOY", "the toy", default=False),
        make_text_key("TOY_VERSION", "v1.0", "tag of the toy"),
        make_text_key("TOY_URL", "https://example.org/toy", "the toy's repository or an archive"),
        make_text_key("TOY_COMMIT", "", "commit of that tag"),
        make_text_key("TOY_SHA256", "", "sha256, where TOY_URL is an archive"),
    ),
    args=lambda values: select_values(values, *list_source_keys("TOY")),
    requires=(Requirement(any_of=("INSTALL_MPI",), reason="INSTALL_TOY needs INSTALL_MPI"),),
    env=lambda _: {"TOY_HOME": "/opt/toy"},
    sources=make_tree_sources("TOY"),
    installed=(
        InstalledVersion(name="toy", command="cat /opt/toy/version", setting="TOY_VERSION"),
    ),
    rules=(
        Rule(
            name="Toy on Debian 11",
            broken=_too_old,
            reason="its library is too new",
            source="example.org/toy",
            hint="Take a BASE_IMAGE of Debian 12",
        ),
    ),
)
'''
TOY_SETTINGS = (
    *("INSTALL_TOY=true", "NSYS_SOURCE=debian", "INSTALL_TORCH=none"),
    f"BASE_IMAGE=debian:13@sha256:{'0' * 64}",
)


def make_flags(*settings: str) -> tuple[str, ...]:
    return tuple(word for setting in (*TOY_SETTINGS, *settings) for word in ("--set", setting))


def test_a_component_has_settings(project: Path) -> None:
    assert json.loads(run(project, "config", "--format", "json"))["TOY_VERSION"] == {
        "value": "v1.0",
        "source": "default",
    }
    template = run(project, "config", "--format", "env")
    assert "# --- Toy, which plays\n# the toy\nINSTALL_TOY=false\n" in template


def test_a_component_is_a_stage_of_the_dockerfile(project: Path) -> None:
    text = run(project, "render", *make_flags())
    assert "FROM base AS toy\n" in text
    assert "setup.d/65-toy.sh" in text
    assert 'ENV TOY_HOME="/opt/toy"' in text
    assert '"--version=toy=cat /opt/toy/version"' in text
    assert 'LABEL io.github.gpu-profile.toy-version="v1.0"' in text
    assert "toy" not in run(project, "render", *make_flags("INSTALL_TOY=false"))


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


def test_the_lock_has_the_checksum_of_a_component(project: Path, archive_url: str) -> None:
    run(project, "lock", *make_flags(f"TOY_URL={archive_url}"))
    text = (project / "gpu-profile.lock").read_text()
    (project / "gpu-profile.lock").unlink()
    assert f"pinned TOY_SHA256 = {sha256(SOURCES).hexdigest()}" in text


def test_a_component_refuses_what_it_does_not_work_with(project: Path) -> None:
    refusal = invoke_copy(project, "render", *make_flags("BASE_IMAGE=debian:11"))
    assert refusal.returncode == 2
    assert "Toy 1.0 does not run on Debian 11: its library is too new (example.org" in refusal.said
    refusal = invoke_copy(project, "render", *make_flags("INSTALL_MPI=false"))
    assert refusal.returncode == 2
    assert "INSTALL_TOY needs INSTALL_MPI" in refusal.said


TOY_TABLE = '''\
"""Table toy_sum: kernels of each rank, counted."""

from collections.abc import Sequence

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.table import Column, Table


def _collect(database: Database, scope: Scope) -> list[tuple[int, int]]:
    return [(one.rank, len(one.ops.start)) for one in activities_of(database, scope)]


def _merge(parts: Sequence[list[tuple[int, int]]]) -> Table:
    rows = tuple(sorted(row for part in parts for row in part))
    return Table("toy_sum", (Column("Rank"), Column("Operations")), rows)


TOY_SUM = Analysis("toy_sum", _collect, _merge, doc="GPU operations of each rank, counted")
'''


def test_a_table_is_listed(project: Path) -> None:
    lines = run(project, "stats", "--list").splitlines()
    (line,) = [line for line in lines if line.startswith("toy_sum ")]
    assert line.split(maxsplit=2)[1:] == ["gpu-profile", "GPU operations of each rank, counted"]


@pytest.mark.parametrize("form", ["text", "csv", "json"])
def test_a_table_is_printed_in_each_format(project: Path, form: str) -> None:
    words = ("stats", "--table", "toy_sum", "--report", str(REPORT), "--format", form)
    text = run(project, *words)
    if form == "json":
        assert [row["Rank"] for row in json.loads(text)["toy_sum"]] == [0, 1, 2, 3]
    else:
        assert "Operations" in text


TOY_FINDING = '''\
"""Finding toy: a rank has steps, and makes copies."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_profile.analysis.activity.activity import COPY, Activity
from gpu_profile.analysis.findings.finding import Finding, Judgement
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.store.database import Database


@dataclass(frozen=True)
class Copies:
    """How many of a report's copies a rank made."""

    count: int
    total: int


def _collect(activity: Activity, database: Database) -> Copies:
    total = database.count("CUPTI_ACTIVITY_KIND_MEMCPY")
    return Copies(int((activity.ops.kind == COPY).sum()), total)


def _judge(views: Sequence[View[Copies]]) -> Judgement:
    ranks = tuple(view.rank for view in views)
    copies = views[0].fact
    evidence = (
        f"it has {views[0].steps} steady steps",
        f"it made {copies.count} of {copies.total} copies",
    )
    return Judgement((Finding("toy", ranks, "play", 0.0, evidence, "Go on playing."),))


RULE = FindingRule(
    kind="toy",
    title="Steps to play with",
    collect=_collect,
    judge=_judge,
    rows=(FindingRow(causes=("play",), when="a rank has steps"),),
)
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with the toys."""
    copy = copy_project(tmp_path_factory.mktemp("extension"))
    (copy / "gpu_profile/components/toy.py").write_text(TOY_COMPONENT)
    script = copy / "Container-Root/setup.d/65-toy.sh"
    script.write_text("#!/usr/bin/env bash\nset -euo pipefail\ninstall -d /opt/toy\n")
    (copy / "gpu_profile/analysis/our_tables/toy_sum.py").write_text(TOY_TABLE)
    (copy / "gpu_profile/analysis/findings/rules/toy.py").write_text(TOY_FINDING)
    return copy


def test_a_finding_is_told_with_its_evidence(project: Path) -> None:
    words = ("diagnose", "--report", str(RANK))
    told = "toy on 0: play\n   - it has 19 steady steps\n   - it made 1241 of 1241 copies\n"
    assert told in run(project, *words)
    findings = json.loads(run(project, *words, "--format", "json"))
    (toy,) = [finding for finding in findings if finding["kind"] == "toy"]
    assert (toy["ranks"], toy["cause"], toy["advice"]) == ([0], "play", "Go on playing.")


def test_a_finding_has_its_title_on_the_page(project: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    run(project, "html", "--report", str(RANK), "--output", str(page))
    assert ". Steps to play with</span>" in page.read_text()


def test_pages_are_generated_with_what_was_added(project: Path) -> None:
    renewal = run_tests_of_copy(
        project, "tests/unit/test_readme.py", "-k", "generated_parts", GOLDEN="write"
    )
    assert renewal.returncode == 0, renewal.said
    tables = (project / "docs/reading.md").read_text()
    assert "| `toy_sum` | GPU operations of each rank, counted |" in tables
    settings = (project / "docs/settings.md").read_text()
    assert "| `TOY_VERSION` | `v1.0` | tag of the toy |" in settings
    findings = (project / "docs/findings.md").read_text()
    assert "| `toy` | `play` | a rank has steps |" in findings
