"""Analyse reports on an existing Dask cluster (the optional extra `dask`)."""

import asyncio
import importlib.util
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import TYPE_CHECKING, Any

from gpu_profile.errors import ReportError, ToolError

if TYPE_CHECKING:
    from gpu_profile.analysis.multi_report.work import Answer, Work

_CONNECT_S = 20
_NO_ANSWER = (OSError, ValueError, RuntimeError, asyncio.TimeoutError, futures.TimeoutError)
"""What distributed raises. Before Python 3.11 there are three kinds of TimeoutError."""
_HINT = "pip install 'gpu-profile[dask]'"


def on_cluster(
    works: "Sequence[Work]", scheduler: str, notify: Callable[[str], None]
) -> "list[Answer]":
    """One answer for each work, in order. Dask itself reassigns the works of a lost worker.

    Raises ToolError if the scheduler does not answer or its workers lack gpu-profile.
    """
    try:
        import distributed
    except ImportError as error:
        raise ToolError("--scheduler needs the package distributed", _HINT) from error
    try:
        client = distributed.Client(scheduler, timeout=_CONNECT_S, set_as_default=False)
    except _NO_ANSWER as error:
        hint = "Give the address that `dask scheduler` prints"
        raise ToolError(f"no Dask scheduler answers at {scheduler}", hint) from error
    with client:
        _check_workers(client, scheduler)
        return _collect_answers(distributed, client, works, notify)


def _check_workers(client: Any, scheduler: str) -> None:  # noqa: ANN401 - distributed is untyped
    if not client.scheduler_info()["workers"]:
        raise ToolError(
            f"the Dask cluster at {scheduler} has no workers", f"Start one: dask worker {scheduler}"
        )
    # Our functions are pickled by name, so a worker without gpu-profile would fail with an unclear
    # error.
    specs = client.run(importlib.util.find_spec, "gpu_profile")
    missing = sorted(worker for worker, spec in specs.items() if spec is None)
    if missing:
        what = f"{len(missing)} Dask workers, {missing[0]} first, have no gpu-profile"
        raise ToolError(what, f"There: {_HINT}")


def _collect_answers(
    distributed: Any,  # noqa: ANN401 - distributed is untyped
    client: Any,  # noqa: ANN401
    works: "Sequence[Work]",
    notify: Callable[[str], None],
) -> "list[Answer]":
    futures = [client.submit(work.do, pure=False, retries=1) for work in works]
    place = {future.key: work.source.place for future, work in zip(futures, works, strict=True)}
    answers: dict[str, Answer] = {}
    for future in distributed.as_completed(futures, loop=client.loop):
        try:
            answers[future.key] = future.result()
        except distributed.KilledWorker:
            what = f"{place[future.key]} killed every worker that read it"
            answers[future.key] = ReportError(what, "Give the workers more memory")
        notify(f"{len(answers)} of {len(works)} reports read")
        future.release()
    return [answers[future.key] for future in futures]
