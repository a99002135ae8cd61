"""The JSON that nccl-tests writes with -J (2.17.3 and newer)."""

import json
import re
from collections.abc import Mapping
from typing import Any

from gpu_profile.errors import ReportError
from gpu_profile.nccl.measurement import Measurement, Row, Speed

_HARMLESS = ("NCCL_", "FI_", "CUDA_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES=")


def parse_json(text: str) -> Measurement:
    """Return the measurement of `-J FILE` (file version 3). Raises ReportError for other text."""
    document = _load_document(text)
    try:
        return _from_document(document)
    except (KeyError, TypeError, ValueError) as error:
        what = "The JSON of nccl-tests is not in a form known here"
        raise ReportError(f"{what}: {error!r}", "The table in the job's log is read too") from error


def _load_document(text: str) -> dict[str, Any]:
    try:
        # C's printf writes `inf` for the bandwidth of a time of 0, which is no JSON; Python reads
        # `Infinity`.
        document = json.loads(re.sub(r":(-?)inf\b", r":\1Infinity", text))
    except ValueError as error:
        hint = "nccl-tests ends it as its last act: its log says why the job ended early"
        raise ReportError(f"The JSON of nccl-tests is cut: {error}", hint) from error
    if not isinstance(document, dict):
        raise ReportError("The JSON of nccl-tests is not an object", "Give it a file of its own")
    return document


def _from_document(document: Mapping[str, Any]) -> Measurement:
    return Measurement(
        collective=str(document["args"][0]).rsplit("/", 1)[-1],
        version=f"JSON {document['version']}",
        devices=_list_devices(document["config"]),
        rows=tuple(_parse_row(result) for result in document["results"]),
        out_of_bounds=int(document["out_of_bounds"]["count"]),
        average_busbw=float(document["average_bus_bandwidth"]["bandwidth"]),
    )


def _list_devices(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a GPU name for each rank; the file lists only the first GPU of each process."""
    threads = int(config.get("nthreads", 1)) * int(config.get("ngpus", 1))
    return tuple(str(d["device_info"]) for d in config["devices"] for _ in range(threads))


def _parse_row(result: Mapping[str, Any]) -> Row:
    return Row(
        size=int(result["size"]),
        count=int(result["count"]),
        type=str(result["type"]),
        redop=str(result["redop"]),
        root=int(result["root"]),
        out_of_place=_speed_of(result.get("out_of_place")),
        in_place=_speed_of(result.get("in_place")),
    )


def _speed_of(half: Mapping[str, Any] | None) -> Speed | None:
    if half is None:
        return None
    time_us = half["cpu_time"] if "cpu_time" in half else half["time"]
    wrong = half["nwrong"]
    return Speed(
        time_us=float(time_us),
        algbw=float(half["alg_bw"]),
        busbw=float(half["bus_bw"]),
        wrong=None if wrong is None else int(wrong),
    )


def redact_json(text: str) -> str:
    """Return the document without values of environment variables, which `-J` writes in full.

    A document that cannot be parsed is dropped: a secret may be anywhere in it.
    """
    try:
        document = _load_document(text)
    except ReportError:
        return '{"redacted": "this file was cut"}\n'
    if "env" in document:
        document["env"] = [entry for entry in document["env"] if str(entry).startswith(_HARMLESS)]
    return json.dumps(document) + "\n"
