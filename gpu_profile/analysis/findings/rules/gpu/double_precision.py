"""Finding double_precision: kernels that wait for memory, of numbers of 64 bits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.findings.evidence.costly_kernels import judge_costly_kernels
from gpu_profile.analysis.findings.facts.kernel_names import (
    KernelTimes,
    list_longest,
    sum_kernels,
)
from gpu_profile.analysis.findings.finding import Judgement
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.replay.edits.kernels.double_precision import (
    is_throughout,
    use_single_precision,
)
from gpu_profile.analysis.replay.edits.kernels.number_types import (
    DOUBLE,
    HALF,
    NARROWER,
    find_float,
    find_left,
)
from gpu_profile.analysis.store.database import Database

SHOWN_SHARE = 0.01
"""The part of the step in other kernels of doubles that is told."""
MIXED, ONLY = "mixed", "throughout"
ADVICE = (
    "Compute in 32 bits where the result allows it, which has 7 digits then and not 16: NumPy and "
    "CuPy make doubles unless told (dtype=np.float32 where an array is made or loaded, "
    "torch.from_numpy(...).float(), torch.set_default_dtype(torch.float32)), and one array of "
    "doubles makes all that it meets double. What needs the digits, such as a sum of very many "
    "numbers, can stay: x.sum(dtype=...)."
)


@dataclass(frozen=True, eq=False)
class Doubles:
    """Kernels of doubles that wait for memory, the `others` of doubles, and whether each kernel
    that names a floating-point type names doubles.
    """

    kernels: KernelTimes
    others: KernelTimes
    is_throughout: bool


def collect_doubles(activity: Activity, _: Database) -> Doubles:
    """The kernels of doubles of one rank."""
    double, narrower = (_sum_type(activity, each) for each in (DOUBLE, NARROWER))
    only = is_throughout(double, narrower)
    kernels = sum_kernels(activity, lambda name: find_left(name, only) < 1)
    others = sum_kernels(activity, lambda name: _is_not_counted(name, only))
    return Doubles(kernels, others, only)


def _is_not_counted(name: str, only_doubles: bool) -> bool:
    return find_float(name) == DOUBLE and find_left(name, only_doubles) == 1


def _sum_type(activity: Activity, float_type: str) -> float:
    """ns in kernels whose names say this type."""
    times = sum_kernels(activity, lambda name: find_float(name) == float_type)
    return float(sum(times.names.values()))


def judge_doubles(views: Sequence[View[Doubles]]) -> Judgement:
    """Find ranks that spend time in kernels of doubles."""
    cause = ONLY if all(view.fact.is_throughout for view in views) else MIXED
    return judge_costly_kernels(
        "double_precision", cause, views, _measure_ms, _list_evidence, ADVICE
    )


def _measure_ms(view: View[Doubles]) -> float:
    return view.mean(view.fact.kernels.time) / 1e6


def _list_evidence(view: View[Doubles]) -> tuple[str, ...]:
    return (
        f"rank {view.rank}: {_measure_ms(view):.2f} of {view.step_ms:.2f} ms a step in kernels "
        "that read and write numbers of 64 bits, most in "
        f"{list_longest(view.fact.kernels.names)}; in 32 bits they move half of the bytes",
        *_list_others(view),
        _describe_program(view),
    )


def _list_others(view: View[Doubles]) -> Iterator[str]:
    others = view.fact.others
    ms = view.mean(others.time) / 1e6
    if ms >= SHOWN_SHARE * view.step_ms:
        yield (
            f"rank {view.rank}: {ms:.2f} ms a step in matrix products and other kernels of 64 "
            f"bits, most in {list_longest(others.names)}, are not in the cost"
        )


def _describe_program(view: View[Doubles]) -> str:
    if view.fact.is_throughout:
        return (
            "all kernels that name a floating-point type name that of 64 bits: where the program "
            "wants these digits, nothing is lost"
        )
    return "other kernels of the program compute in fewer bits"


RULE = FindingRule(
    kind="double_precision",
    title="Double precision",
    collect=collect_doubles,
    judge=judge_doubles,
    time_ms=lambda view, _: _measure_ms(view) * HALF,
    rows=(
        FindingRow(
            causes=(MIXED, ONLY),
            when=(
                "kernels of PyTorch, CuPy, CUB or cuFFT that wait for memory (elementwise, sums, "
                "norms, copies, scans, sorts, transforms, products with vectors) name doubles as "
                "the type of their data. The gain is an estimate: in 32 bits they move half of "
                "the bytes, but for 2 us of each. Its range: 1.25 times as many bytes, and as few. "
                "Products of matrices and the program's own kernels of doubles are named and not "
                "counted. It is a trade for digits, and "
                "comes after causes whose fix changes no result; `throughout`, where no kernel "
                "names another floating-point type, after all others"
            ),
        ),
    ),
    edit=lambda finding: use_single_precision(finding.cause == ONLY),
)
