"""Hold the predicted gain of a planted cause against the twin of the run that has its fix."""

import random
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.replay.changes import LEAST_SHARE
from gpu_profile.analysis.store.database import Database
from tests.generator.judge import PARALLEL_SHARE, mean_step, recorded_steps, run_program
from tests.generator.parallel import PIPELINE, ParallelProgram, draw_parallel
from tests.generator.program import Plant, Program, draw_program, fix_plant
from tests.generator.true_causes import NAMES
from tests.reading import diagnose_reports

DEPTH, LEAST_STEPS, LEAST_RECORDED = 1022, 32, 6
"""Of the launch queue of a GPU: the replay knows no other. A recording has 60 steps by default: in
ten of them a log of each tenth step is there once or not at all. A host that is far ahead leaves a
window of some ms with the calls of 2 or 3 steady steps: there the replay abstains."""
OF_STEP, OF_GAIN = 0.10, 0.25
"""What docs/accuracy.md calls right."""


@dataclass(frozen=True)
class Gain:
    """The gain (ms a step) of a plant's fix: `true` by the twin, `predicted` by the first finding
    that names it, None without one. `step_ms` is the step with the plant. `why_not`: why nothing
    was predicted, "" where something was. `findings`: all of them as text.
    """

    seed: int
    plant: Plant
    step_ms: float
    true: float
    predicted: float | None
    why_not: str
    findings: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        if self.predicted is None:
            return self.true < 2 * LEAST_SHARE * self.step_ms
        error = abs(self.predicted - self.true)
        return error <= OF_STEP * self.step_ms and error <= OF_GAIN * max(
            self.true, LEAST_SHARE * self.step_ms
        )

    def __str__(self) -> str:
        predicted = "nothing" if self.predicted is None else f"{self.predicted:.3f}"
        return (
            f"seed {self.seed}: {self.plant.name} on {self.plant.ranks}, step {self.step_ms:.3f} "
            f"ms, gains {self.true:.3f}, predicted {predicted} {self.why_not} {list(self.findings)}"
        )


def judge_gains(seed: int) -> list[Gain]:
    """The gains of what is planted in the program of a seed, with a real launch queue."""
    parallel = random.Random(seed).random() < PARALLEL_SHARE
    drawn = draw_parallel(seed) if parallel else replace(draw_program(seed), depth=DEPTH)
    program = replace(drawn, steps=max(LEAST_STEPS, drawn.steps))
    run = run_program(program)
    if program.window and len(recorded_steps(run)) < LEAST_RECORDED:
        program = replace(program, window=None)
        run = run_program(program)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        paths = run.save(Path(folder))
        databases = [stack.enter_context(Database.open(path)) for path in paths]
        diagnosis = diagnose_reports(*databases)
    steps = recorded_steps(run)
    step_ms = mean_step(run.truth, steps) / 1e6
    gains = list[Gain]()
    for plant in program.plants:
        fixed_ms = mean_step(run_program(fix(program, plant)).truth, steps) / 1e6
        gains.append(compare_gain(seed, plant, diagnosis, step_ms, step_ms - fixed_ms))
    return gains


def compare_gain(
    seed: int, plant: Plant, diagnosis: Diagnosis, step_ms: float, true_ms: float
) -> Gain:
    """The gain that a diagnosis predicts of a plant's fix, beside the true one."""
    finding = next((finding for finding in diagnosis.findings if _names(finding, plant)), None)
    predicted = finding.replayed_ms if finding else None
    why_not = diagnosis.plan if isinstance(diagnosis.plan, str) else ""
    texts = (
        f"{finding.kind}/{finding.cause} {finding.ranks} {finding.cost_ms:.3f}"
        for finding in diagnosis.findings
    )
    return Gain(seed, plant, step_ms, true_ms, predicted, why_not, tuple(texts))


def _names(finding: Finding, plant: Plant) -> bool:
    kinds = NAMES.get(plant.name, set())
    return (finding.kind, finding.cause) in kinds and bool({*finding.ranks} & {*plant.ranks})


def fix(program: Program | ParallelProgram, plant: Plant) -> Program | ParallelProgram:
    """The program with what a fix of the plant leaves."""
    if isinstance(program, ParallelProgram):
        if program.kind != PIPELINE:
            return program.without(plant)
        share = 1 + plant.size * len(plant.ranks) / program.ranks
        return replace(program.without(plant), kernels=tuple(t * share for t in program.kernels))
    if plant.name == "exposed":
        return replace(program.without(plant), transfer_us=0.0)
    kept = [
        fix_plant(plant) if planted == plant else planted
        for planted in (program.plant, program.second)
    ]
    return replace(program, plant=kept[0], second=kept[1])
