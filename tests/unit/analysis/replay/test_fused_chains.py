"""Chains of elementwise kernels, and what one kernel leaves of each."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from gpu_profile.analysis.replay.edits.kernels.elementwise_chains import (
    find_chains,
)
from gpu_profile.analysis.replay.edits.kernels.elementwise_work import LINK, Work, find_work
from gpu_profile.analysis.replay.edits.kernels.fused_chains import (
    describe_small_chains,
    fuse_chains,
)
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights
from tests.unit.analysis.replay.small_runs import make_steps
from tests.unit.analysis.replay.test_plan import predict_us

Kernels = Sequence[tuple[str, float]]

NATIVE = "void at::native::"
VECTORIZED = (
    NATIVE + "vectorized_elementwise_kernel<(int)4, at::native::{}, std::array<char *, {}>>()"
)
MUL = "BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float>>"
NO_CAST = (
    NATIVE + "elementwise_kernel<(int)128, (int)2, void at::native::gpu_kernel_impl_nocast<"
    "at::native::{}>(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)"
)
WHERE = "where_kernel_impl()::[lambda() (instance 1)]::[lambda(bool, float, float) (instance 1)]"

TANH = (VECTORIZED.format("tanh_kernel_cuda", "(unsigned long)2"), 200)
EXP = (VECTORIZED.format("exp_kernel_cuda", "2ul"), 200)
SCALE = (VECTORIZED.format("AUnaryFunctor<float>", "(unsigned long)2"), 200)
MULTIPLY = (VECTORIZED.format(MUL, "(unsigned long)3"), 300)
CAST = (VECTORIZED.format("bfloat16_copy_kernel_cuda", "(unsigned long)2"), 150)
TINY = (SCALE[0], 2)
JAX = [("wrapped_subtract", 300), ("loop_multiply_fusion", 200), ("wrapped_sqrt", 200)]
JITTED = [("loop_add_fusion", 300), ("loop_multiply_fusion", 200), ("wrapped_sqrt", 200)]
ADD, SINE = ("cupy_add__float32_float32_float32", 300), ("cupy_sin__float32_float32", 200)
SUM = (f"{NATIVE}reduce_kernel<512, 1, {NATIVE}ReduceOp<float, sum_functor<float>>>()", 150)
TAIL = (SCALE, CAST, MULTIPLY, MULTIPLY)
GEMM = ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", 500)

JOIN = (NATIVE + "<unnamed>::CatArrayBatchedCopy<OpaqueType<2>, unsigned int, 4, 128, 1>()", 150)

CHAIN = (TANH, SCALE, EXP, MULTIPLY)


@pytest.mark.parametrize(
    ("name", "work"),
    [
        (TANH[0], Work(2, is_copy=False, elements=8)),
        (EXP[0], Work(2, is_copy=False, elements=8)),
        (MULTIPLY[0], Work(3, is_copy=False, elements=8)),
        (CAST[0], Work(2, is_copy=True, elements=8)),
        (NO_CAST.format(MUL), Work(3, is_copy=False, elements=2)),
        (NO_CAST.format("BUnaryFunctor<float>"), Work(2, is_copy=False, elements=2)),
        (NO_CAST.format(WHERE), Work(4, is_copy=False, elements=2)),
        (ADD[0], Work(3, is_copy=False, elements=1)),
        ("cupy_multiply__float32_float_float32", Work(2, is_copy=False, elements=1)),
        ("cupy_where__bool_float32_float32_float32", Work(4, is_copy=False, elements=1)),
        ("cupy_copy__bool_uint8", Work(2, is_copy=True, elements=1)),
        ("wrapped_subtract", Work(3, is_copy=False, elements=4)),
        ("wrapped_exponential_2", Work(2, is_copy=False, elements=4)),
        ("wrapped_convert", Work(2, is_copy=True, elements=4)),
        ("loop_multiply_fusion_1", Work(2, is_copy=True, elements=4)),
        (SUM[0], Work(2, is_copy=True, elements=LINK)),
        (JOIN[0], Work(2, is_copy=True, elements=LINK)),
    ],
)
def test_a_name_tells_the_arrays_of_an_elementwise_kernel(name: str, work: Work) -> None:
    assert find_work(name) == work


@pytest.mark.parametrize(
    "name",
    [
        GEMM[0],
        "cupy_take",
        "wrapped_transpose",
        "input_reduce_fusion",
        "triton_poi_fused_add_mul_0",
        "multi_tensor_apply_kernel",
    ],
)
def test_other_kernels_are_no_members(name: str) -> None:
    assert find_work(name) is None


def find(
    kernels: Kernels, threads: Sequence[int] = (), lane: Sequence[int] = ()
) -> list[list[int]]:
    names = list(dict(kernels))
    length = np.array([int(1_000 * us) for _, us in kernels])
    chains = find_chains(
        [find_work(name) for name in names],
        np.array([names.index(name) for name, _ in kernels]),
        np.array(lane or [7] * len(kernels)),
        np.cumsum(length) - length,
        length,
        np.array(threads or [1 << 20] * len(kernels)),
    )
    rows = np.split(chains.rows, np.flatnonzero(np.diff(chains.chain)) + 1)
    return [part.tolist() for part in rows if len(part)]


@pytest.mark.parametrize(
    ("kernels", "chains"),
    [
        ((GEMM, *CHAIN, GEMM), [[1, 2, 3, 4]]),
        ((TANH, SCALE, TINY, EXP, MULTIPLY), [[0, 1, 3, 4]]),
        ((SINE, ADD, SINE, ADD, ADD), [[0, 1, 2, 3, 4]]),
        ((*JAX, ("wrapped_add", 300)), [[0, 1, 2, 3]]),
        ((*CHAIN, GEMM, *CHAIN, CAST), [[0, 1, 2, 3], [5, 6, 7, 8, 9]]),
        ((*CHAIN, *CHAIN, TINY, *CHAIN), [[0, 1, 2, 3], [4, 5, 6, 7], [9, 10, 11, 12]]),
        ((*CHAIN, *CHAIN), [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ((*CHAIN, *CHAIN, *TAIL), [[*range(12)]]),
        ((SUM, TANH, SUM, SCALE, JOIN, EXP, SUM), [[1, 2, 3, 4, 5]]),
    ],
    ids=[
        *("between products", "with a tiny one", "CuPy", "JAX", "two layers", "passes of a loop"),
        *("two passes", "a formula twice in another", "a norm"),
    ],
)
def test_elementwise_kernels_that_follow_each_other_are_a_chain(
    kernels: Kernels, chains: list[list[int]]
) -> None:
    assert find(kernels) == chains


@pytest.mark.parametrize(
    "kernels",
    [
        (TANH, SCALE, GEMM, EXP, MULTIPLY),
        (TANH, SCALE, CAST, CAST),
        (SUM, TANH, SCALE, MULTIPLY, SUM),
        (MULTIPLY,) * 12,
        (SCALE, MULTIPLY, EXP) * 4,
        [(name, 4) for name, _ in CHAIN],
        (*JITTED, ("wrapped_add", 300)),
    ],
    ids=[
        "a product",
        "casts",
        "sums at both ends",
        "a loop of one",
        "a loop of three",
        "tiny kernels",
        "what XLA has fused",
    ],
)
def test_other_rows_are_no_chain(kernels: Kernels) -> None:
    assert find((GEMM, *kernels, GEMM)) == []


def test_a_chain_is_of_one_size_and_one_lane() -> None:
    assert find(CHAIN, threads=(1 << 20, 1 << 20, 1 << 18, 1 << 18)) == []
    assert find(CHAIN, lane=(7, 7, 8, 8)) == []
    assert find(CHAIN, threads=(0, 0, 0, 0)) == []


def test_what_pytorch_gives_a_thread_differs_by_its_version() -> None:
    unrolled = (NO_CAST.format(MUL).replace("(int)2", "(int)4"), 300)
    for threads in (1 << 20, 1 << 21):
        assert find((*CHAIN, unrolled), threads=[1 << 20] * 4 + [threads]) == [[0, 1, 2, 3, 4]]


def make_graph(kernels: Kernels) -> RunGraph:
    graph = make_steps(kernels)
    count = len(graph.ops.start)
    sizes = {"blocks": np.full(count, 8_192), "threads": np.full(count, 128)}
    return replace(graph, ops=replace(graph.ops, **sizes))


def test_one_kernel_and_one_launch_of_a_chain_are_left() -> None:
    """Of 900 us and 9 arrays: 2 arrays at the least, or 3, as one operand is not written. With
    slow functions it takes twice the 300 us of the slowest one.
    """
    graph, change = make_graph((GEMM, *CHAIN, GEMM)), fuse_chains()
    assert change.bounds is not None
    applied = (change.bounds[0], change.apply, change.bounds[1])
    predicted = [predict_us(graph, each) for each in applied]
    assert predicted == pytest.approx([1_600, 1_250, 1_200], rel=0.002)
    weights = change.apply(graph, Weights.of(graph))
    freed = np.flatnonzero((weights.lag == 0) & (graph.edges.lag > 0) & (graph.edges.kind == 2))
    assert len(freed) == 3 * graph.steps


def test_a_fused_kernel_writes_numbers_as_narrow_as_the_fastest_member_does() -> None:
    """The cast takes 75 us an array: 2 arrays as fast as that, or 3 as long as 11 in 1,050 us."""
    graph, change = make_graph((GEMM, *CHAIN, CAST, GEMM)), fuse_chains()
    middle = 2.5 * (75 + 0.5 * (1_050 / 11 - 75))
    assert predict_us(graph, change.apply) == pytest.approx(1_000 + middle, rel=0.002)


def list_layers(us: float) -> Kernels:
    """A long chain, and short ones of three other formulas, whose kernels take so long."""
    orders = ((1, 0, 2, 3), (2, 0, 1, 3), (3, 0, 1, 2))
    short = ((GEMM, *((CHAIN[place][0], us) for place in order)) for order in orders)
    return (GEMM, *CHAIN, *chain.from_iterable(short), GEMM)


def test_small_formulas_stay_where_one_has_the_most_time() -> None:
    """Of 900 us 250 are left. Three of 48 us stay, each 2 % of the step."""
    graph, change = make_graph(list_layers(12)), fuse_chains()
    assert predict_us(graph, change.apply) == pytest.approx(2_500 + 250 + 3 * 48, rel=0.002)
    assert "0.14 ms of a recorded step, each formula less than 3 %" in describe_small_chains(graph)


def test_formulas_of_3_percent_of_the_step_go_with_the_others() -> None:
    graph, change = make_graph(list_layers(60)), fuse_chains()
    assert predict_us(graph, change.apply) < 2_500 + 250 + 3 * 240 - 100
    assert describe_small_chains(graph) == ""
