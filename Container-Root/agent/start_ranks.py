"""Start the ranks of this node, one process each, like torchrun. Python 3.8, stdlib only."""

from __future__ import annotations

import contextlib
import os
import queue
import random
import signal
import socket
import subprocess
import sys
import threading
from typing import IO, TYPE_CHECKING

from left_windows import end_left_windows
from process_tree import KILL, adopt_orphans, end_descendants
from rank_env import node
from rank_processes import Stopper, await_orphans, exit_code, own_session, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_JOIN_S = 5.0


def start(
    argv: Sequence[str], processes: int, environ: Mapping[str, str], grace_s: float, output: Path
) -> int:
    """Run `argv` once for each rank; return the exit code of the first rank that failed.

    A rank that fails ends the others: they get SIGTERM, so that nsys completes its reports, and
    SIGKILL after `grace_s` seconds unless nsys is at work on its report.
    """
    ranks = Ranks(argv, environ, rank_environments(processes, environ), output)
    # Each rank's own process waits for `grace_s`: allow it a quarter more to end its programs.
    stopper = Stopper(ranks.stop, 1.25 * grace_s)
    adopt_orphans()
    ranks.start_all()
    code = 0
    while ranks.running:
        rank, returncode = ranks.next_end()
        if returncode and not code:
            code = exit_code(returncode)
            if not stopper.signum and ranks.running:
                say(f"rank {rank} ended with exit code {code}: ending the others")
                stopper.stop(signal.SIGTERM)
    ranks.join()
    end_descendants(0)
    return code or (128 + stopper.signum if stopper.signum else 0)


def rank_environments(processes: int, environ: Mapping[str, str]) -> list[dict[str, str]]:
    """Return torchrun's variables for each local rank.

    With several nodes, MASTER_ADDR and MASTER_PORT of the first node come from the operator
    (PET_…) or from the user.
    """
    node_rank, nodes = node(environ)
    cores = os.cpu_count() or 1
    shared = {
        "WORLD_SIZE": str(nodes * processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "GROUP_RANK": str(node_rank),
        "OMP_NUM_THREADS": environ.get("OMP_NUM_THREADS", str(max(1, cores // processes))),
        **_rendezvous(nodes, environ),
    }
    first = node_rank * processes
    return [
        {**shared, "RANK": str(first + local), "LOCAL_RANK": str(local)}
        for local in range(processes)
    ]


def _rendezvous(nodes: int, environ: Mapping[str, str]) -> dict[str, str]:
    if nodes == 1:
        return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    address = environ.get("PET_MASTER_ADDR") or environ.get("MASTER_ADDR")
    if not address:
        raise ValueError(f"{nodes} nodes have no MASTER_ADDR to meet at")
    # 29500 is torchrun's default port.
    port = environ.get("PET_MASTER_PORT") or environ.get("MASTER_PORT") or "29500"
    return {"MASTER_ADDR": address, "MASTER_PORT": port}


def _free_port() -> int:
    """Return a free TCP port from 20000 to 29999.

    Linux takes the ports of outgoing connections from 32768 up by default (ip_local_port_range of
    https://docs.kernel.org/networking/ip-sysctl.html). Such a port could be in use, by nsys or by a
    rank that connects early, before rank 0 listens on it.
    """
    for port in random.sample(range(20000, 30000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port
    raise ValueError("no free port from 20000 to 30000 for the ranks to meet at")


class Ranks:
    """The processes of this node. Rank 0's output is shown as it is, rank 3's after `[3] `.

    Output is written in whole lines, because programs write a line in several pieces. A terminal
    is passed to rank 0 as it is.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        ranks: Sequence[Mapping[str, str]],
        output: Path,
    ) -> None:
        self._argv = argv
        self._output = output
        self._environ = environ
        self._ranks = ranks
        self._processes: list[subprocess.Popen[bytes]] = []
        self._readers: list[threading.Thread] = []
        self._ends: queue.Queue[tuple[str, int]] = queue.Queue()
        self._stopped = 0
        self._writing = threading.Lock()
        self.running = len(ranks)

    def start_all(self) -> None:
        for rank in self._ranks:
            self._start(rank)
        if self._stopped:
            self.stop(self._stopped)

    def _start(self, rank: Mapping[str, str]) -> None:
        first = rank["RANK"] == "0"
        process = subprocess.Popen(
            self._argv,
            env={**self._environ, **rank},
            stdout=None if first and sys.stdout.isatty() else subprocess.PIPE,
            stderr=None if first else subprocess.STDOUT,
            **own_session(),
        )
        self._processes.append(process)
        if process.stdout is not None:
            self._readers.append(_thread(self._copy_lines, process.stdout, rank["RANK"]))
        _thread(self._await, process, rank["RANK"])

    def _await(self, process: subprocess.Popen[bytes], rank: str) -> None:
        code = process.wait()
        if code == -KILL and not self._stopped:
            say(f"profile.py of rank {rank} was killed: its program goes on")
            end_left_windows(self._output, self._environ)
            code = await_orphans({process.pid for process in self._processes})
        self._ends.put((rank, code))

    def _copy_lines(self, lines: IO[bytes], rank: str) -> None:
        for line in lines:
            if rank != "0":
                # nsys overwrites its progress bar with carriage returns: keep the last state only.
                line = f"[{rank}] ".encode() + line.rstrip(b"\r\n").rpartition(b"\r")[2] + b"\n"
            with self._writing:
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()

    def next_end(self) -> tuple[str, int]:
        """Return the next rank that ends, with its exit code.

        It wakes up each second, because Windows runs no signal handler during a longer wait.
        """
        while True:
            try:
                ended = self._ends.get(timeout=1)
            except queue.Empty:
                continue
            self.running -= 1
            return ended

    def stop(self, signum: int) -> None:
        self._stopped = signum
        if os.name == "nt":
            signum = getattr(signal, "CTRL_BREAK_EVENT", signum)
        for process in self._processes:
            if process.returncode is None:
                process.send_signal(signum)

    def join(self) -> None:
        """Wait up to 5 s for each rank's remaining output: others may hold the pipe open."""
        for reader in self._readers:
            reader.join(_JOIN_S)


def _thread(target: object, *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread
