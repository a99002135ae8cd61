"""Remove environments from nsys reports where nsys itself cannot. Python 3.8, stdlib only."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import find_nsys
import kept_streams
import recorded_env
from process_tree import name_as_nsys
from rank_processes import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Recorded:
    """The recordings of one rank. `mask` overwrites variables; `replace` makes the reports again.

    Both may be called after each window; `warn` comes last.

    Both do nothing where nsys has --discard-environment. `environment` is the environment to start
    nsys with.
    """

    def __init__(self, nsys: str, options: Sequence[str], environ: Mapping[str, str]) -> None:
        self._nsys = nsys
        self._options = options
        self._environ = environ
        self._left: set[str] = set()
        self._masked: set[str] = set()
        self._discards = recorded_env.DISCARDING in options
        self.environment = environ if self._discards else recorded_env.plain_stream(environ)
        if not self._discards:
            # end_idle waits only for processes named like nsys. Masking goes on after nsys has
            # ended, so this process takes such a name.
            name_as_nsys()
        self.keeper = kept_streams.StreamKeeper(watch=not self._discards)

    def rescue(self, target: Path) -> None:
        """Move the recording of an nsys that ended before its import to `target`, a .qdstrm.

        nsys leaves it as /tmp/nsys-report-1a2b.qdstrm then. With windows it is the last one's.
        """
        if not self.keeper.streams:
            return
        stream = self.keeper.streams[-1]
        left = os.readlink(f"/proc/self/fd/{stream.fileno()}")  # noqa: PTH115 - of Python 3.9
        try:
            _copy_stream(stream, target)
        except OSError as error:  # such as a full disk
            with suppress(OSError):
                target.unlink()
            say(f"the recording is {left}: {target.parent} takes no copy: {error.strerror}")
            return
        with suppress(OSError):  # the name ends with ` (deleted)` if nsys removed it
            Path(left).unlink()

    def mask(self, left: Sequence[Path]) -> None:
        """Overwrite the variables in the kept streams, and in the .qdstrm files `left`.

        An nsys without an importer leaves its recording as a .qdstrm file.
        """
        if self._discards:
            return
        for file in self.keeper.streams:
            recorded_env.mask_stream(file, self._environ)
        self._left = {path.stem for path in left if not has_report(path)}
        for path in left:
            with path.open("r+b") as file:
                recorded_env.mask_stream(file, self._environ)

    def replace(self, reports: Sequence[Path]) -> None:
        """Import each masked stream in place of its report."""
        streams = self.keeper.take()
        fresh = [report for report in reports if report.stem not in self._masked]
        masked = [report for report in fresh if report.stem in self._left]
        pairs = [] if masked else kept_streams.pair_streams(streams, fresh)
        masked += [report for stream, report in pairs if self._import(stream, report)]
        self._masked |= {report.stem for report in masked}
        for stream in streams:
            stream.close()

    def warn(self, reports: Sequence[Path], rank: int) -> None:
        """Say which variables a report holds that could not be made again."""
        names = recorded_env.secret_names(self._environ)
        unmasked = {report.stem for report in reports} - self._masked
        if not self._discards and unmasked and names:
            say(
                f"rank {rank}: this nsys records environments, and the report holds"
                f" {', '.join(names)}: give others the copy that `invoke scrub` makes"
            )

    def import_left(self, streams: Sequence[Path]) -> None:
        """Make a report of each .qdstrm without one, with the importer of any nsys here."""
        environ = dict(self._environ)
        if self.keeper.library_path:
            environ["LD_LIBRARY_PATH"] = self.keeper.library_path
        for stream in streams:
            if not has_report(stream) and not self._import_file(stream, environ):
                say(
                    f"{stream} is a recording that no importer here reads:"
                    " `QdstrmImporter --input-file` does"
                )

    def _import_file(self, stream: Path, environ: Mapping[str, str]) -> bool:
        for importer in dict.fromkeys([*self._importers(), *_importers(self._nsys)]):
            done = _run([importer, "--input-file", str(stream)], environ)
            if done and stream.with_suffix(".nsys-rep").exists():
                stream.unlink()
                return True
        return False

    def _import(self, stream: IO[bytes], report: Path) -> bool:
        """Import a masked stream and replace nsys' own report by the result. Returns success."""
        # Beside the report: a rename works on one file system only, and the report's has the room.
        with tempfile.TemporaryDirectory(prefix=".import-", dir=str(report.parent)) as folder:
            draft = Path(folder) / report.name
            # As nsys' agent had it: a wrapper script may set it, and the importer is started
            # without one.
            environ = {**self._environ, "LD_LIBRARY_PATH": self.keeper.library_path}
            for importer in self._importers():
                # nsys has removed the file: it can be read by our open descriptor alone.
                argv = [importer, "--input-file", f"/proc/{os.getpid()}/fd/{stream.fileno()}"]
                done = _run([*argv, "--output-file", str(draft)], environ)
                if done and draft.exists():
                    draft.replace(report)
                    self._export(report)
                    return True
        return False

    def _importers(self) -> list[str]:
        """Return the importer of the nsys that recorded, or all importers of this machine.

        `nsys` on PATH may be a wrapper script; the keeper knows the program behind it.
        """
        importer = find_nsys.find_importer(Path(self.keeper.nsys)) if self.keeper.nsys else ""
        return [importer] if importer else _importers(self._nsys)

    def _export(self, report: Path) -> None:
        """Repeat the exports of the user's options (--export, --stats) with the new report."""
        kinds = {kind for kind in _values(self._options, "--export") if kind != "none"}
        if "true" in _values(self._options, "--stats"):
            kinds.add("sqlite")
        for kind in sorted(kinds):
            target = report.with_suffix(f".{kind}")
            argv = [self._nsys, "export", f"--type={kind}", "--force-overwrite=true"]
            _run([*argv, f"--output={target}", str(report)])


def _copy_stream(stream: IO[bytes], target: Path) -> None:
    copy = os.open(str(target), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(copy, "wb") as file:
        stream.seek(0)
        shutil.copyfileobj(stream, file)


def has_report(stream: Path) -> bool:
    """Return whether a .qdstrm lies beside the report that nsys made of it.

    nsys 2025.3.1 leaves the .qdstrm of a JAX program behind.
    """
    try:
        return stream.with_suffix(".nsys-rep").stat().st_size > 0
    except OSError:
        return False


def _importers(nsys: str) -> list[str]:
    """Return the importers of the copies of nsys on this machine, that of `nsys` first."""
    return find_nsys.list_importers([*find_nsys.find_copies(nsys), *find_nsys.find_copies()])


def _run(argv: Sequence[str], environ: Mapping[str, str] | None = None) -> bool:
    done = subprocess.run(
        argv,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=False,
        # By SIGPIPE an export of nsys 2023.4.4 ends with 0 bytes: mpirun, which has read stderr,
        # may have ended.
        restore_signals=False,
    )
    return done.returncode == 0


def _values(options: Sequence[str], name: str) -> list[str]:
    """Return the values of an option: `--export=sqlite,text` gives sqlite and text."""
    words = (word.partition("=")[2] for word in options if word.startswith(f"{name}="))
    return [value for word in words for value in word.split(",")]
