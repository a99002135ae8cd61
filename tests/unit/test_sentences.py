"""Sentences that one program of ours prints and another one reads have the same words in both."""

import re
from pathlib import Path

import pytest

from gpu_profile.launchers.kubernetes.job import job_status
from gpu_profile.launchers.slurm import sbatch
from gpu_profile.launchers.slurm import state as slurm_state

ROOT = Path(__file__).resolve().parents[2]


def fill_in(template: str, *words: str) -> str:
    """Replace each %s of printf, or {name} of an f-string, by the next word."""
    for word in words:
        template = re.sub(r"%s|\{\w+\}", word, template, count=1)
    return template


@pytest.mark.parametrize("manifest", ["pytorchjob.yaml", "trainjob.yaml"])
def test_a_pod_says_its_exit_code_as_the_state_reads_it(manifest: str) -> None:
    text = (ROOT / "k8s" / manifest).read_text()
    (template,) = re.findall(r"printf '(gpu-profile: %s ended with %s;.*?)\\n'", text)
    match = job_status._ENDED.search(fill_in(template, "train-master-0", "3"))
    assert match is not None
    assert (match["pod"], match["code"]) == ("train-master-0", "3")


def test_the_first_rank_that_ended_is_printed_as_the_job_reads_it() -> None:
    import job_run

    text = (ROOT / "Container-Root" / "agent" / "start_ranks.py").read_text()
    (template,) = re.findall(r'say\(f"(rank \{rank\} ended with exit code \{code\}.*?)"\)', text)
    match = job_run._FIRST_END.search(f"profile.py: {fill_in(template, '2', '1')}")
    assert match is not None
    assert match[1] == "rank 2 ended with exit code 1"


@pytest.mark.parametrize(("first", "tasks"), [("7", None), ("7 of tasks 0-1", "tasks 0-1")])
def test_a_slurm_script_writes_its_exit_code_as_the_state_reads_it(
    first: str, tasks: str | None
) -> None:
    (template,) = re.findall(r'echo "(exit code .*?)" >"\$run/ended"', sbatch._WAITING)
    match = slurm_state._EXIT.fullmatch(template.replace("${first:-$code}", first))
    assert match is not None
    assert (match["code"], match["tasks"]) == ("7", tasks)
