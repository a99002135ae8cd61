"""Hold what the analysis says of a synthetic run against the truth."""

import random
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.multi_report.survey import run_of, survey_report
from gpu_profile.analysis.replay.changes import LEAST_SHARE
from gpu_profile.analysis.store.database import Database
from tests.generator.parallel import ParallelProgram, draw_parallel
from tests.generator.parallel_run import simulate_parallel
from tests.generator.program import Plant, Program, draw_program
from tests.generator.simulate import KERNELS, Run, Truth, simulate
from tests.generator.true_causes import is_true, names_plant
from tests.reading import diagnose_reports

STEADY = 4  # the first step that counts: compiling and autotuning are over
FEWEST = 3  # with fewer whole steps there is no repetition to find
PARALLEL_SHARE = 0.25  # of the runs
NAMED_COST = 0.10  # a cause that costs this part of the step must be named


@dataclass(frozen=True)
class Cost:
    """A planted cause, the part of the step that it takes (by a twin of the run without it), and
    whether a finding names it."""

    plant: Plant
    share: float
    named: bool

    @property
    def missed(self) -> bool:
        return self.share >= NAMED_COST and not self.named

    def __str__(self) -> str:
        named = "named" if self.named else "not named"
        return f"{self.plant.name} on {self.plant.ranks}, {self.share:.0%} of a step, {named}"


@dataclass(frozen=True)
class Verdict:
    """`wrong`: findings that no plant explains. `steps`: what is wrong with the steps, "" for
    nothing."""

    program: Program | ParallelProgram
    costs: tuple[Cost, ...]
    wrong: tuple[str, ...]
    steps: str
    unjudged: tuple[str, ...] = field(default=())

    @property
    def misses(self) -> tuple[Cost, ...]:
        return tuple(cost for cost in self.costs if cost.missed)

    def __str__(self) -> str:
        planted = "; ".join(map(str, self.costs)) or "nothing"
        text = f"seed {self.program.seed}: {planted}"
        return f"{text}; wrong {list(self.wrong)}; steps {self.steps!r}"


def judge_seed(seed: int) -> Verdict:
    """Draw, run, read and judge the program of a seed: one in four has groups of ranks."""
    parallel = random.Random(seed).random() < PARALLEL_SHARE
    return judge_program(draw_parallel(seed) if parallel else draw_program(seed))


def judge_program(program: Program | ParallelProgram) -> Verdict:
    """Run, read and judge a program."""
    run = run_program(program)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        paths = run.save(Path(folder))
        databases = [stack.enter_context(Database.open(path)) for path in paths]
        diagnosis = diagnose_reports(*databases)
        findings = _in_the_job(diagnosis.findings, databases)
        steps = steps_error(run, databases)
    wrong = tuple(
        _told(finding)
        for finding in findings
        if not is_true(finding, program) and not _is_transfer(finding, run)
    )
    if _notes_delay(diagnosis.unjudged) and not _may_delay(program):
        wrong = (*wrong, "a delay of the host is noted")
    costs = tuple(
        Cost(
            plant,
            planted_cost(run, plant),
            names_plant(findings, plant, program) or _is_noted(diagnosis.unjudged, plant, run),
        )
        for plant in program.plants
    )
    return Verdict(program, costs, wrong, steps, diagnosis.unjudged)


def run_program(program: Program | ParallelProgram) -> Run:
    """The program's reports and its truth."""
    if isinstance(program, ParallelProgram):
        return simulate_parallel(program)
    return simulate(program)


def _in_the_job(findings: Sequence[Finding], databases: Sequence[Database]) -> tuple[Finding, ...]:
    """The findings with the job's ranks.

    A window can leave one process of a report without work. The report then numbers the others
    from 0, as nothing in it tells how many processes there were.
    """
    scopes = run_of([survey_report(database) for database in databases]).scopes
    ranks = {rank: pid - 100 for scope in scopes for pid, rank in scope.ranks.items()}
    return tuple(
        replace(finding, ranks=tuple(sorted(ranks.get(rank, rank) for rank in finding.ranks)))
        for finding in findings
    )


def planted_cost(run: Run, plant: Plant) -> float:
    """The part of the recorded steps that a planted cause takes: against the same run without it.

    0.0 where the window holds no GPU work, because the host was ahead by the whole of it.
    """
    if not any(report.rows[KERNELS] for report in run.recordings.values()):
        return 0.0
    plain, steps = run_program(run.program.without(plant)), recorded_steps(run)
    return 1 - mean_step(plain.truth, steps) / mean_step(run.truth, steps)


def recorded_steps(run: Run) -> list[int]:
    """The steps after STEADY of which every rank's calls are in the window; all without such."""
    truth, steps = run.truth, range(STEADY, len(run.truth.host[0]) - 1)
    if run.program.window is None:
        return list(steps)
    first, last = min(begins[0] for begins in truth.gpu), max(truth.end)
    low, high = (first + share * (last - first) for share in run.program.window)
    inside = [
        step
        for step in steps
        if all(low <= begins[step] and begins[step + 1] <= high for begins in truth.host)
    ]
    return inside or list(steps)


def mean_step(truth: Truth, steps: Sequence[int]) -> float:
    """The mean time of these steps on the slowest rank (ns)."""
    return max(
        sum(begins[step + 1] - begins[step] for step in steps) / len(steps) for begins in truth.gpu
    )


def _told(finding: Finding) -> str:
    return f"{finding.kind}/{finding.cause} on {finding.ranks}, {finding.cost_ms:.3f} ms"


def _is_transfer(finding: Finding, run: Run) -> bool:
    """Whether what every step transfers is worth to be told, by a twin that transfers in no time:
    of a finding that costs nothing yet, when the plants are gone.

    Half of the threshold is enough: a plant beside it makes the step longer.
    """
    if finding.kind != "exposed_communication":
        return False
    steps, program = recorded_steps(run), run.program
    if finding.replayed_ms == 0:
        for plant in program.plants:
            program = program.without(plant)
    with_transfers, without = (
        mean_step(run_program(variant).truth, steps)
        for variant in (program, replace(program, transfer_us=0.0))
    )
    return 1 - without / with_transfers >= LEAST_SHARE / 2


def _is_noted(notes: Sequence[str], plant: Plant, run: Run) -> bool:
    """Whether a delay that the recording holds once or twice is noted: that proves no period."""
    delays = sum(step % plant.every == 0 for step in recorded_steps(run))
    return plant.name == "every_nth" and delays < FEWEST and _notes_delay(notes)


def _notes_delay(notes: Sequence[str]) -> bool:
    return any(note.startswith("whether a delay of the host comes again") for note in notes)


def _may_delay(program: Program | ParallelProgram) -> bool:
    """Whether anything in the program keeps a host from its work: a plant, or what comes beside."""
    return bool(program.plants) or program.saves or program.read_share > 0


def steps_error(run: Run, databases: list[Database]) -> str:
    """What is wrong with the steps of the first rank that has them wrong; "" for nothing."""
    scopes = run_of([survey_report(database) for database in databases]).scopes
    for database, scope in zip(databases, scopes, strict=True):
        origin = run.recordings[database.path.name].origin
        for activity in activities_of(database, scope):
            begins = [begin + origin for begin in find_steps(activity).start.tolist()]
            rank = (activity.process >> 24 & 0xFFFFFF) - 100
            span = (int(activity.ops.start[0]) + origin, int(activity.ops.end.max()) + origin)
            if error := _rank_error(begins, run.truth, rank, span):
                return f"rank {rank}: {error}"
    return ""


def _rank_error(begins: list[int], truth: Truth, rank: int, span: tuple[int, int]) -> str:
    """The count may differ by two, each boundary by 5 % of a step from the nearest true one."""
    true = [begin for begin in truth.gpu[rank] if span[0] <= begin <= span[1]]
    if not begins and len(true) <= FEWEST:
        return ""  # the last of three steps has no end in the window, and two prove no repetition
    if abs(len(begins) - len(true)) > 2:
        return f"{len(begins)} steps, truly {len(true)}"
    allowed = 0.05 * truth.step_ms(STEADY) * 1e6
    far = [begin for begin in begins[1:] if min(abs(begin - known) for known in true) > allowed]
    return f"{len(far)} of {len(begins)} boundaries are off" if far else ""
