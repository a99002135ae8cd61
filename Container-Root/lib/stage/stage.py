"""Run one component's script and lay out all that it added under /out, for one COPY.

The components are installed side by side, each on the bare base. What two of them change alike
(package lists, accounts) goes to /out as fragments, which the final stage merges.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import fragments

if TYPE_CHECKING:
    from collections.abc import Iterator

EPOCH = 315619200  # 1980-01-02: files made by the build get this date, and zip still likes it
OUT = Path("/out")
LEFT_OUT = (
    *("out", "proc", "sys", "dev", "run", "tmp", "mnt"),
    *("var/tmp", "var/log", "var/cache", "var/lib/apt", "var/lib/systemd"),
    *("var/lib/dpkg/lock", "var/lib/dpkg/lock-frontend", "var/lib/dpkg/triggers/Lock"),
    *("var/lib/dpkg/available", "etc/ld.so.cache", "etc/.pwd.lock", "root/.cache", "root/.gnupg"),
)


def _excluded(root: Path) -> frozenset[str]:
    merged = [name for file in fragments.FILES for name in (file, f"{file}-", f"{file}-old")]
    return frozenset(str(root / name) for name in (*LEFT_OUT, *merged))


def walk(root: Path) -> Iterator[os.DirEntry[str]]:
    """Everything on root's own file system (mounts are the build's, not the image's)."""
    device, excluded = root.lstat().st_dev, _excluded(root)
    pending = [str(root)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                info = entry.stat(follow_symlinks=False)
                if entry.path in excluded or info.st_dev != device:
                    continue
                if stat.S_ISDIR(info.st_mode):
                    pending.append(entry.path)
                yield entry


def _make_parents(path: Path, root: Path, out: Path) -> None:
    relative = path.relative_to(root)
    for parent in reversed(relative.parents):
        if not (out / parent).exists():
            (out / parent).mkdir()
            _copy_attributes(root / parent, out / parent)


def _copy_attributes(source: Path, target: Path) -> None:
    info = source.lstat()
    os.chown(target, info.st_uid, info.st_gid)
    shutil.copystat(source, target)


def collect(root: Path, out: Path, since_ns: int) -> int:
    """Hard-link what is newer than `since_ns` into `out`. Returns how many files that are."""
    count = 0
    for entry in list(walk(root)):
        info = entry.stat(follow_symlinks=False)
        # The time of change, for dpkg gives files the date that they have in their package.
        if info.st_ctime_ns <= since_ns or stat.S_ISSOCK(info.st_mode):
            continue
        path = Path(entry.path)
        target = out / path.relative_to(root)
        if stat.S_ISDIR(info.st_mode):
            if not any(path.iterdir()):
                _make_parents(path / "any", root, out)
            continue
        _make_parents(path, root, out)
        # What the build itself made gets one date for all builds: same input, same bytes.
        if info.st_mtime_ns > since_ns:
            os.utime(path, (EPOCH, EPOCH), follow_symlinks=False)
        # A link takes no room: CUDA's libraries would otherwise be on the disk twice while it
        # builds.
        os.link(path, target, follow_symlinks=False)
        count += 1
    return count


def take_in(root: Path) -> None:
    """Make what this stage was given of other components known: to apt, and to the linker."""
    notes = root / fragments.NOTES
    if notes.exists():
        fragments.merge(root, sorted(notes.iterdir()))
        # They would otherwise be collected as this component's own.
        shutil.rmtree(notes)
        subprocess.run(["ldconfig"], check=True)


def main(name: str, script: str) -> int:
    root, notes = Path("/"), OUT / fragments.NOTES / name
    take_in(root)
    before = fragments.snapshot(root)
    paths = {entry.path for entry in walk(root)}
    since_ns = time.time_ns()
    time.sleep(0.05)  # a file's date is as coarse as the kernel's tick
    code = subprocess.run(["bash", script], env={**os.environ, "COMPONENT": name}).returncode
    if code:
        return code
    count = collect(root, OUT, since_ns)
    notes.mkdir(parents=True)
    fragments.write(before, fragments.snapshot(root), notes)
    gone = sorted(paths - {entry.path for entry in walk(root)})
    (notes / "removed").write_text("".join(f"{path}\n" for path in gone))
    print(f"{name}: {count} files", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
