"""Keep the streams (.qdstrm) that nsys deletes after their import. Python 3.8, stdlib only."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from process_tree import descendants

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

_POLL_S = 0.3  # a stream file exists while nsys imports it, which takes over 1 s


class StreamKeeper:
    """Open each .qdstrm stream that nsys writes, because nsys deletes it after the import.

    An open file stays readable without a name, so no file is left behind when this process is
    killed. `nsys` is the program behind a wrapper script, `library_path` the LD_LIBRARY_PATH of
    that program.
    """

    def __init__(self, *, watch: bool) -> None:
        self.streams: list[IO[bytes]] = []
        self.nsys = ""
        self.library_path = ""
        self._seen: set[tuple[int, int]] = set()
        self._taking = threading.Lock()
        self._agents: list[int] = []
        self._wanted = watch and sys.platform == "linux"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> StreamKeeper:
        if self._wanted:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def take(self) -> list[IO[bytes]]:
        """Return the streams so far, which the caller closes. Later ones are of later windows."""
        with self._taking:
            streams, self.streams = self.streams, []
            return streams

    def _watch(self) -> None:
        while not self._ended.wait(_POLL_S):
            if not any(Path(f"/proc/{pid}/fd").exists() for pid in self._agents):
                self._agents = [process.pid for process in descendants() if _is_agent(process.pid)]
            # A later stream may get the inode of one that nsys has deleted and closed.
            open_ = {seen for pid in self._agents for seen in self._keep_streams(pid)}
            with self._taking:
                self._seen = open_ | {_identify(os.fstat(s.fileno())) for s in self.streams}

    def _keep_streams(self, pid: int) -> Iterator[tuple[int, int]]:
        """Keep the streams that a process has open; yield the identity of each."""
        with suppress(OSError):
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):  # it is closed meanwhile
                    if os.readlink(str(link)).endswith(".qdstrm"):  # noqa: PTH115 - of Python 3.9
                        yield self._keep(link)
                        self._look_at(Path(f"/proc/{pid}"))

    def _keep(self, link: Path) -> tuple[int, int]:
        stream = _identify(link.stat())
        if stream not in self._seen:
            with self._taking:
                self.streams.append(link.open("r+b"))
            self._seen.add(stream)
        return stream

    def _look_at(self, agent: Path) -> None:
        self.nsys = os.readlink(str(agent / "exe"))  # noqa: PTH115 - of Python 3.9
        variables = (agent / "environ").read_bytes().split(b"\0")
        prefix = b"LD_LIBRARY_PATH="
        library_paths = [text[len(prefix) :] for text in variables if text.startswith(prefix)]
        self.library_path = os.fsdecode(library_paths[0]) if library_paths else ""


def _identify(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_agent(pid: int) -> bool:
    with suppress(OSError):
        return b"--start-agent" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return False


def report_number(report: Path) -> int:
    """Return the window's number: 2 for `rank0.host.2.nsys-rep`, 0 for `rank0.host.nsys-rep`."""
    number = report.name.split(".")[-2]
    return int(number) if number.isdigit() else 0


def pair_streams(
    streams: Sequence[IO[bytes]], reports: Sequence[Path]
) -> list[tuple[IO[bytes], Path]]:
    """Return each report with its stream, in the order of windows. Empty if the counts differ."""
    if len(streams) != len(reports):
        return []
    ordered = sorted(reports, key=report_number)
    return [(stream, ordered[place]) for place, stream in enumerate(streams)]
