"""Which kernels are communication, by the names that libraries give them."""

from pathlib import Path

import pytest

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE
from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.comm_kernels import (
    CommKernel,
    comm_kernel,
    function_name,
    looks_like_communication,
)
from tests.reading import diagnose_reports
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank

NAMES = """
NCCL all_reduce ncclAllReduceRingLLKernel_sum_f32(ncclWorkElem)
NCCL all_reduce ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm *, unsigned long, ncclWork *)
NCCL all_reduce ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)
NCCL reduce_scatter ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL
NCCL reduce ncclDevKernel_Reduce_Sum_f32_RING_LL
NCCL send_recv ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)
NCCL broadcast ncclDevKernel_Broadcast_RING_LL
NCCL other ncclDevKernel_Generic_4
NCCL all_reduce ncclSymDevKernel_AllReduce_AGxLL_R_sum_bf16(ncclSymDevArgs)
NCCL all_gather ncclSymkDevKernel_AllGather_STMC(ncclSymkDevWorkArgs)
NCCL reduce_scatter ncclSymkDevKernel_ReduceScatter_LDMC_sum_f32
symmetric_memory all_reduce void <unnamed>::multimem_all_reduce_kernel<c10::BFloat16, (int)16>(T1 *)
symmetric_memory all_reduce void (anonymous namespace)::one_shot_all_reduce_kernel<float, 16>(float **)
symmetric_memory all_reduce void <unnamed>::two_shot_all_reduce_kernel_inplace<c10::BFloat16>(x)
symmetric_memory all_reduce void _GLOBAL__N__0000_foo_cu_12::multimem_one_shot_all_reduce_kernel<f>(x)
symmetric_memory all_reduce _ZN12_GLOBAL__N_134two_shot_all_reduce_kernel_inplaceIfEEvPPT_
symmetric_memory all_gather void {anonymous}::multimem_all_gather_kernel<16>(x)
symmetric_memory all_reduce cross_device_reduce_2stage
torch all_reduce void c10d::symmetric_memory::_GLOBAL__N_::two_shot_all_reduce_kernel<float>(x)
torch barrier c10d::symmetric_memory::barrier_kernel(unsigned int **, int)
torch all_reduce void c10d::intra_node_comm::oneShotAllReduceKernel<8u, false>(at::BFloat16 *)
DeepEP all_to_all void deep_ep::intranode::dispatch<(int)8, (int)768>(int4 *, float *)
DeepEP all_to_all void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(x)
DeepEP all_to_all void deep_ep::intranode::notify_dispatch<8>(x)
DeepEP all_to_all void deep_ep::intranode::cached_notify_combine<8>(x)
DeepEP all_to_all void deep_ep::internode::dispatch<false, 4>(x)
DeepEP all_to_all void deep_ep::internode::combine<false>(x)
DeepEP all_to_all void deep_ep::internode_ll::dispatch<true, 7168>(x)
DeepEP all_to_all void deep_ep::internode_ll::combine<true, 7168>(x)
DeepEP barrier deep_ep::internode_ll::clean_low_latency_buffer<32>(long *)
pplx all_to_all void pplx::<unnamed>::AllToAllIntraNode::dispatchKernel<8>(x)
pplx all_to_all pplx::AllToAllInterNodeCombine
FlashInfer all_reduce void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<4>(x)
FlashInfer all_reduce flashinfer::trtllm_mnnvl_allreduce::twoshot_allreduce_kernel
TensorRT-LLM all_reduce void tensorrt_llm::kernels::oneShotAllReduceKernel<__nv_bfloat16, 8>(x)
TensorRT-LLM all_to_all void tensorrt_llm::kernels::moe_comm::moeAllToAllKernel(x)
TransformerEngine all_reduce userbuffers_fp16_sum_inplace_gpu_rw
TransformerEngine reduce_scatter void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<8>(int)
TransformerEngine all_gather userbuffers_fp16_sum_inplace_gpu_rr_ag
TransformerEngine send_recv kuserbuffers_pushrecv(int)
MSCCL all_reduce mscclKernel_Sum_half_Simple_false
vLLM all_reduce void vllm::cross_device_reduce_1stage<__nv_bfloat16, (int)8>(vllm::RankData *)
SGLang all_reduce void sglang::cross_device_reduce_2stage<half, 4>(x)
NVSHMEM all_to_all void nvshmemi_alltoall_on_stream_kernel<char>(x)
NVSHMEM barrier nvshmem_barrier_all_kernel
XLA all_reduce void stream_executor::gpu::AllReduceKernelImpl<float>(x)
XLA all_to_all void stream_executor::gpu::RaggedAllToAllKernelImpl<long>(x)
"""  # noqa: E501 - names as nsys prints them
COMPUTES = (
    "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float>>(T3)",
    "void cublasLt::splitKreduce_kernel<(int)32>(x)",
    "void deep_ep::layout::get_dispatch_layout<256>(x)",
    "void at::native::vectorized_gather_kernel<(int)16, long>(char *)",
    "triton_poi_fused_all_gather_into_tensor_wait_tensor_3",
    "void flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits>(x)",
    "",
)


@pytest.mark.parametrize("line", NAMES.strip().splitlines())
def test_each_family_is_communication(line: str) -> None:
    family, kind, name = line.split(" ", 2)
    assert comm_kernel(name) == CommKernel(family.replace("_", " "), kind)
    assert not looks_like_communication(name)


@pytest.mark.parametrize("name", COMPUTES)
def test_compute_is_not_communication(name: str) -> None:
    assert comm_kernel(name) is None
    assert not looks_like_communication(name)


def test_function_names_have_neither_arguments_nor_anonymous_namespaces() -> None:
    name = "void at::native::<unnamed>::vectorized_layer_norm_kernel<float, (bool)0>(int, T2)"
    assert function_name(name) == "at::native::vectorized_layer_norm_kernel"


def test_a_kernel_without_its_namespace_is_looked_up_by_its_whole_name(tmp_path: Path) -> None:
    """nsys' short name of deep_ep::intranode::dispatch<…> is dispatch."""
    recording = Training(ranks=1, steps=3).record()
    rank = Rank(recording, 0, now=10**9)
    rank.kernel(50, "void deep_ep::intranode::dispatch<(int)8>(int *)")
    rank.kernel(50, "void mine::dispatch<(int)8>(int *)")
    rows = recording.rows["CUPTI_ACTIVITY_KIND_KERNEL"]
    rows[-2:] = [(*row[:-1], recording.name("dispatch")) for row in rows[-2:]]
    with Database.open(recording.save(tmp_path / "ep.sqlite")) as database:
        (activity,) = activities_of(database, Scope())
    kinds = [
        (activity.names[int(code)], kind)
        for code, kind in zip(activity.ops.name, activity.ops.kind, strict=True)
    ]
    assert kinds[-2:] == [("deep_ep::intranode::dispatch", COMMUNICATION), ("dispatch", COMPUTE)]


def test_an_undecided_kernel_is_named(tmp_path: Path) -> None:
    training = Training(after=lambda rank: rank.kernel(2000, "my_ring_all_reduce_kernel"))
    with Database.open(training.save(tmp_path)) as database:
        notes = diagnose_reports(database).unjudged
    start = "whether the kernel my_ring_all_reduce_kernel communicates (1"
    assert any(note.startswith(start) for note in notes)
