"""Classes of kernels by name: those of torch, cuBLAS, cuDNN, triton, XLA, vLLM and NCCL."""

import pytest

from gpu_profile.analysis.tables.kernel_class import KERNEL_CLASSES, classify_kernel

NAMES = {
    "GEMM": """
        nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT
        void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(T1::Params)
        void cublasLt::splitKreduce_kernel<(int)32, (int)16, int, float>(T6)
        sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64
        triton_tem_fused_mm_4
        gemm_fusion_dot_12
        fused_moe_kernel
    """,
    "attention": """
        void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<int>>>(T1)
        void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)64>>(T2)
        fmha_cutlassB_f32_aligned_64x64_k64_sm80(T1::Params)
        void flashinfer::BatchDecodeWithPagedKVCacheKernel<(int)1>(T1)
        cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x64
    """,
    "norm": """
        void at::native::<unnamed>::vectorized_layer_norm_kernel<float, float, (bool)0>(int)
        void flashinfer::norm::RMSNormKernel<(unsigned int)8, __nv_bfloat16>(T2 *)
        void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, (int)512>(cudnnTensorStruct)
        triton_red_fused_native_layer_norm_3
    """,
    "elementwise": """
        void at::native::elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>>(int)
        triton_poi_fused_add_gelu_0
        loop_add_fusion
        void vllm::act_and_mul_kernel<c10::BFloat16>(T1 *)
        void vllm::rotary_embedding_kernel<c10::BFloat16>(T1 *)
    """,
    "reduction": """
        void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float>>(T3)
        void <unnamed>::softmax_warp_forward<float, float, float, (int)9>(T2 *)
        triton_per_fused__softmax_1
        input_reduce_fusion_2
    """,
    "optimizer": """
        void at::native::multi_tensor_apply_kernel<at::native::FusedAdamMathFunctor<float>>(T1)
        void at::native::multi_tensor_apply_kernel<at::native::LerpFunctor<float>>(T1)
    """,
    "embedding": """
        void at::native::<unnamed>::indexSelectLargeIndex<float, long, unsigned int, (int)2>(T1)
        void at::native::<unnamed>::embedding_backward_feature_kernel<float>(T1)
    """,
    "communication": """
        ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)
    """,
    "copy": """
        void at::native::elementwise_kernel<at::native::direct_copy_kernel_cuda(int)::[lambda()]>()
        void at::native::<unnamed>::CatArrayBatchedCopy<at::native::OpaqueType<4>>(T1 *)
        void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>(const T1 *)
        loop_transpose_fusion
    """,
    "other": """
        spin_kernel(long)
        my_kernel
    """,
}
CASES = [(n.strip(), kind) for kind, names in NAMES.items() for n in names.strip().splitlines()]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_kernel_has_the_class_that_its_name_says(name: str, kind: str) -> None:
    assert classify_kernel(name) == kind


def test_every_class_has_an_example() -> None:
    assert set(NAMES) == set(KERNEL_CLASSES)
