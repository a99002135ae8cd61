"""What the verbs write is valid by the published schemas."""

import json
from pathlib import Path

from jsonschema import Draft202012Validator

import gpu_profile
from gpu_profile.runs.record import ReportSummary, RunRecord
from tests.invoked import invoke

DATA = Path(__file__).parents[2] / "data"
REPORT = f"--report={DATA / 'h200x4-ddp' / 'rank0.sqlite.gz'}"


def validate(name: str, text: str) -> None:
    Draft202012Validator(gpu_profile.schema(name)).validate(json.loads(text))


def test_tables_and_findings() -> None:
    every = ",".join(gpu_profile.open(REPORT.partition("=")[2]).tables())
    validate(
        "tables",
        invoke("stats", REPORT, f"--table={every}", "--format=json", directory=DATA).stdout,
    )
    validate("findings", invoke("diagnose", REPORT, "--format=json", directory=DATA).stdout)


def test_a_comparison() -> None:
    side = REPORT.partition("=")[2]
    shown = invoke("compare", f"--base={side}", f"--new={side}", "--format=json", directory=DATA)
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
