"""Peak rates of GPUs by number format, and the format of a kernel by its name."""

import re
from collections.abc import Mapping

FP64, FP32, TF32, FP16, BF16, FP8 = "fp64", "fp32", "tf32", "fp16", "bf16", "fp8"
FORMATS = (FP64, FP32, TF32, FP16, BF16, FP8)


def _make_peaks(
    double: float, single: float, tf32: float, half: float, fp8: float = 0
) -> dict[str, float]:
    rates = (double, single, tf32, half, half, fp8)
    return {name: rate for name, rate in zip(FORMATS, rates, strict=True) if rate}


# TFLOP/s without sparsity, of one GPU at its boost clock; FP64 on tensor cores. A datasheet that
# gives rates with sparsity has twice these.
_PEAKS: tuple[tuple[re.Pattern[str], Mapping[str, float]], ...] = (
    # "NVIDIA A100 Tensor Core GPU" datasheet, 2021; PCIe and SXM are equal.
    # https://www.nvidia.com/en-us/data-center/a100/
    (re.compile(r"A100"), _make_peaks(19.5, 19.5, 156, 312)),
    # "NVIDIA H100 Tensor Core GPU" datasheet, 2023: PCIe, NVL, SXM.
    # https://www.nvidia.com/en-us/data-center/h100/
    (re.compile(r"H100 PCIe"), _make_peaks(51, 51, 378, 756, 1513)),
    (re.compile(r"H100 NVL"), _make_peaks(60, 60, 417.5, 835.5, 1670.5)),
    (re.compile(r"H100|GH200"), _make_peaks(67, 67, 494.5, 989.5, 1979)),
    # "NVIDIA H200 Tensor Core GPU" datasheet, 2024: NVL, SXM.
    # https://www.nvidia.com/en-us/data-center/h200/
    (re.compile(r"H200 NVL"), _make_peaks(60, 60, 417.5, 835.5, 1670.5)),
    (re.compile(r"H200"), _make_peaks(67, 67, 494.5, 989.5, 1979)),
    # "NVIDIA Blackwell" datasheet, 2025: the GPU of GB200 NVL72 and that of HGX B200.
    (re.compile(r"GB200"), _make_peaks(40, 80, 1250, 2500, 5000)),
    (re.compile(r"B200"), _make_peaks(37, 75, 1100, 2250, 4500)),
)


def find_peaks(gpu: str) -> Mapping[str, float]:
    """TFLOP/s by format of a GPU's model ("NVIDIA H100 80GB HBM3"); empty for an unknown one."""
    return next((peaks for pattern, peaks in _PEAKS if pattern.search(gpu)), {})


# The first pattern counts that matches. cuBLAS' nvjet kernels name their formats by letters: q is
# fp8, t is bf16, h is fp16, s is fp32 in tensor cores. CUTLASS and cuBLAS name tf32 kernels by the
# shape of their instruction, 1688, without a format.
_NAMES = (
    (FP8, re.compile(r"e4m3|e5m2|fp8|float8|nvjet_(sm\d+_)?q", re.I)),
    (BF16, re.compile(r"bf16|bfloat16|nvjet_(sm\d+_)?t", re.I)),
    (TF32, re.compile(r"tf32|fmha_cutlass._f32|nvjet_(sm\d+_)?s(?!m\d)", re.I)),
    (FP16, re.compile(r"f16|fp16|half|hgemm|_h\d+gemm|nvjet_(sm\d+_)?h", re.I)),
    (TF32, re.compile(r"s1688", re.I)),
    (FP64, re.compile(r"f64|fp64|dgemm|_d884|double", re.I)),
    (FP32, re.compile(r"sgemm|simt|ffma|f32|fp32|float", re.I)),
)


def find_format(kernel: str) -> str:
    """The number format that a kernel multiplies in, by its full name; "" if that does not say.

    cuDNN's generated kernels say f16 of bf16, too.
    """
    if kernel.startswith("cudnn_generated"):
        return ""
    return next((name for name, pattern in _NAMES if pattern.search(kernel)), "")
