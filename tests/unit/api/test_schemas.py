"""What the verbs write is valid by the published schemas."""

import json
from pathlib import Path

from jsonschema import Draft202012Validator

import gpu_profile
from gpu_profile.runs.record import ReportSummary, RunRecord
from tests.invoked import invoke


def validate(name: str, text: str) -> None:
    Draft202012Validator(gpu_profile.schema(name)).validate(json.loads(text))


def test_tables_and_findings(short_run: Path) -> None:
    report = short_run / "rank0.sqlite"
    every = f"--table={','.join(gpu_profile.open(report).tables())}"
    for schema, words in {"tables": ("stats", every), "findings": ("diagnose",)}.items():
        done = invoke(*words, f"--report={report}", "--format=json", directory=short_run)
        validate(schema, done.stdout)


def test_a_comparison(short_run: Path) -> None:
    sides = (f"--base={short_run}/rank0.sqlite", f"--new={short_run}/rank1.sqlite")
    shown = invoke("compare", *sides, "--format=json", directory=short_run)
    validate("comparison", shown.stdout)


def test_a_record() -> None:
    summary = ReportSummary(file="rank0.n.nsys-rep", rank=0, host="n", bytes=9, events={"nvtx": 3})
    record = RunRecord(id="train-1", launcher="docker", command=("python",), reports=(summary,))
    validate("run", record.to_json())


def test_schemas_name_all_fields_of_a_record() -> None:
    properties = gpu_profile.schema("run")["properties"]
    assert (
        properties.keys()
        == json.loads(RunRecord(id="a", launcher="host", command=()).to_json()).keys()
    )
