"""What a stage of the image hands over: files by date, shared files by entry. No Docker needed."""

import importlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

LIB = Path(__file__).parents[3] / "Container-Root" / "lib"
BASE_STATUS = "Package: libc6\nArchitecture: amd64\nStatus: install ok installed\n\n"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModuleType, ModuleType]]:
    monkeypatch.syspath_prepend(str(LIB / "stage"))
    yield importlib.import_module("stage"), importlib.import_module("fragments")
    for name in ("stage", "fragments"):
        sys.modules.pop(name, None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for directory in ("etc", "usr/bin", "var/lib/dpkg", "var/cache/apt", "tmp"):
        (root / directory).mkdir(parents=True)
    (root / "var/lib/dpkg/status").write_text(BASE_STATUS)
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/bash\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "usr/bin/old").write_text("old")
    return root


def _added(root: Path, name: str, uid: int) -> None:
    (root / f"usr/bin/{name}").write_text(name)
    (root / "var/lib/dpkg/status").write_text(f"{BASE_STATUS}Package: {name}\nStatus: ok\n\n")
    (root / "etc/passwd").write_text(f"root:x:0:0::/root:/bin/bash\n{name}:x:{uid}:1::/:/bin/sh\n")


def test_new_files_are_handed_over_and_nothing_else(
    root: Path, tmp_path: Path, modules: tuple[ModuleType, ModuleType]
) -> None:
    stage, _ = modules
    since = time.time_ns()
    time.sleep(0.05)
    (root / "usr/bin/new").write_text("new")
    (root / "usr/bin/link").symlink_to("old")
    (root / "usr/bin/old").chmod(0o755)
    (root / "opt/empty").mkdir(parents=True)
    (root / "tmp/left").write_text("x")
    (root / "var/cache/apt/a.deb").write_text("x")
    _added(root, "tool", 7)
    out = tmp_path / "out"
    out.mkdir()
    stage.collect(root, out, since)
    names = {str(p.relative_to(out)) for p in out.rglob("*") if not p.is_dir() or p.is_symlink()}
    assert names == {"usr/bin/new", "usr/bin/link", "usr/bin/old", "usr/bin/tool"}
    assert (out / "opt/empty").is_dir()
    assert (out / "usr/bin/new").stat().st_mtime == stage.EPOCH
    assert (out / "usr/bin/new").samefile(root / "usr/bin/new")
    assert (out / "usr/bin/link").readlink() == Path("old")


def _note(fragments: ModuleType, root: Path, tmp_path: Path, name: str, uid: int) -> Path:
    before = fragments.snapshot(root)
    kept = {path: path.read_text() for path in (root / "etc/passwd", root / "var/lib/dpkg/status")}
    _added(root, name, uid)
    note = tmp_path / name
    note.mkdir()
    fragments.write(before, fragments.snapshot(root), note)
    for path, text in kept.items():
        path.write_text(text)
    return note


def test_entries_of_side_by_side_components_are_merged(
    root: Path, tmp_path: Path, modules: tuple[ModuleType, ModuleType]
) -> None:
    _, fragments = modules
    notes = [_note(fragments, root, tmp_path, name, uid) for name, uid in (("a", 7), ("b", 8))]
    fragments.merge(root, notes)
    status = (root / "var/lib/dpkg/status").read_text()
    assert status.count("Package: ") == 3
    assert status.startswith("Package: libc6\n")
    accounts = [line.split(":")[0] for line in (root / "etc/passwd").read_text().splitlines()]
    assert accounts == ["root", "a", "b"]


def test_one_number_for_two_accounts_is_refused(
    root: Path, tmp_path: Path, modules: tuple[ModuleType, ModuleType]
) -> None:
    _, fragments = modules
    notes = [_note(fragments, root, tmp_path, name, 7) for name in ("a", "b")]
    with pytest.raises(SystemExit, match="a and b both have id 7"):
        fragments.merge(root, notes)
