"""Kernel names in little room: the function, then what its template arguments tell."""

import pytest

from gpu_profile.formats.function_names import shorten_name, shorten_names, split_name

COPY = (
    "void at::native::elementwise_kernel<(int)128, (int)2, void at::native::gpu_kernel_impl_nocast<"
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 3)]::"
    "operator ()() const::[lambda(float) (instance 1)]>(at::TensorIteratorBase &, const T1 &)::"
    "[lambda(int) (instance 1)]>(int, T3)"
)
GEMM = "void cutlass::Kernel2<cutlass_80_simt_sgemm_{}_8x4_nn_align1>(T1::Params)"
REDUCE = "void at::native::reduce_kernel<(int){}, (int){}, at::native::ReduceOp<float, sum>>(T3)"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (COPY, "elementwise_kernel<…direct_copy…>"),
        (
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4>)",
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        ),
        (
            "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<T>>>",
            "device_kernel<…FlashAttnFwdSm90…>",
        ),
        (
            "void <unnamed>::two_shot_all_reduce_kernel_inplace<c10::BFloat16, (int)16>(T1 **)",
            "two_shot_all_reduce_kernel_inplace<…>",
        ),
        (
            "rank 0: 8.68 of 15.28 ms a step (with the GPU drained) before",
            "rank 0: 8.68 of 15.28 ms a…ained) before",
        ),
    ],
)
def test_a_long_name_keeps_the_function_and_what_tells_it_apart(name: str, short: str) -> None:
    assert shorten_name(name, 40) == short


def test_a_name_that_fits_is_not_touched() -> None:
    assert shorten_name(COPY, len(COPY)) == COPY


def test_the_namespace_and_the_parameters_are_no_part_of_the_function() -> None:
    assert split_name(REDUCE.format(128, 4))[0] == "reduce_kernel"
    assert split_name("invoke stats --table x") == ("", "")


@pytest.mark.parametrize(
    "names",
    [
        [GEMM.format("128x256"), GEMM.format("256x128"), GEMM.format("128x64")],
        [REDUCE.format(128, 4), REDUCE.format(512, 1)],
        [f"sm80_xmma_gemm_f32f32_tn_n_tilesize{n}x8_stage3_warpsize_execute" for n in (1, 2)],
    ],
)
def test_names_that_differ_stay_different(names: list[str]) -> None:
    short = shorten_names(names, 40)
    assert len(set(short.values())) == len(names)
    assert max(map(len, short.values())) <= 40


@pytest.mark.parametrize("name", ["x<" * 50_000, "f<" + "word, " * 50_000, "<" * 99, ">" * 99])
def test_a_crafted_name_is_cut_all_the_same(name: str) -> None:
    assert len(shorten_name(name, 40)) <= 40


@pytest.mark.parametrize(
    ("by_nsys", "by_kineto", "function"),
    [
        (
            "void at::native::<unnamed>::CatArrayBatchedCopy<at::native::<unnamed>::OpaqueType<"
            "(unsigned int)4>, unsigned int, (int)4>(T1 *, T2)",
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous "
            "namespace)::OpaqueType<4u>, unsigned int, 4>(unsigned int*, int)",
            "CatArrayBatchedCopy",
        ),
        (
            "void cutlass__5x_cudnn::Kernel<cutlass__5x_cudnn::conv::kernel::Implicit<(int)64>>"
            "(T1::Params)",
            "_ZN17cutlass__5x_cudnn6KernelINS_4conv6kernel8ImplicitILi64EEEEvNT_6ParamsE",
            "Kernel",
        ),
        ("relax(Args<(int)4>)", "_Z5relax4ArgsILi4EE", "relax"),
    ],
)
def test_a_kernel_has_one_function_whoever_recorded_it(
    by_nsys: str, by_kineto: str, function: str
) -> None:
    assert split_name(by_nsys)[0] == split_name(by_kineto)[0] == function
