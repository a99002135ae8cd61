"""A training step of matrix products, launched from Python through CUDA's driver API.

    python3 products.py compile FILE    makes the kernels, by NVRTC of PyTorch's wheels or by nvcc
    python3 products.py FILE            runs them

No framework is imported, so that 48 recordings take minutes. The step has what makes the times of
a training differ from run to run: a batch made in Python and copied, 96 launches, a loss that is
read.
"""

import ctypes
import random
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gpu_profile_marks import nvtx

INNER = 1024  # the change of the pool: 1056, 3 % more
SIZE, LAYERS, WEIGHTS, STEPS, BATCH = 1024, 16, 64, 80, 4096
TILE, THREADS = 32, 256
KERNELS = """
extern "C" __global__ void product(const float *a, const float *b, float *c, int size, int inner) {
  __shared__ float left[32][33], right[32][33];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * 32 + y, column = blockIdx.x * 32 + x;
  float sum = 0;
  for (int at = 0; at < inner; at += 32) {
    left[y][x] = a[row * inner + at + x];
    right[y][x] = b[(at + y) * size + column];
    __syncthreads();
    for (int i = 0; i < 32; ++i) sum += left[y][i] * right[i][x];
    __syncthreads();
  }
  c[row * size + column] = sum;
}
extern "C" __global__ void squash(float *values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] = tanhf(values[i]);
}
extern "C" __global__ void update(float *weights, const float *slopes, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) weights[i] -= 1e-4f * slopes[i];
}
"""

Pointer = ctypes.c_void_p


def compile_kernels(target: Path) -> None:
    """Write the cubin: by NVRTC, which PyTorch's wheels bring, otherwise by nvcc."""
    roots = [Path(entry, "nvidia") for entry in sys.path if entry]
    libraries = [path for root in roots for path in root.glob("*/lib/libnvrtc.so.1*")]
    if not libraries:
        source = target.with_suffix(".cu")
        source.write_text(KERNELS)
        subprocess.run(["nvcc", "-O2", "-arch=sm_90", "-cubin", "-o", target, source], check=True)
        return
    nvrtc = ctypes.CDLL(str(libraries[0]))
    program, size = Pointer(), ctypes.c_size_t()
    flags = (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_90")
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), KERNELS.encode(), b"k.cu", 0, None, None))
    check(nvrtc.nvrtcCompileProgram(program, 1, flags))
    check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    cubin = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetCUBIN(program, cubin))
    target.write_bytes(cubin.raw)


def check(status: int) -> None:
    if status:
        raise SystemExit(f"CUDA: error {status}")


class Gpu:
    """The first GPU with the kernels of a file."""

    def __init__(self, kernels: Path) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context, self.module = ctypes.c_int(), Pointer(), Pointer()
        check(self.cuda.cuInit(0))
        check(self.cuda.cuDeviceGet(ctypes.byref(device), 0))
        check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        check(self.cuda.cuCtxSetCurrent(context))
        check(self.cuda.cuModuleLoadData(ctypes.byref(self.module), kernels.read_bytes()))

    def make_floats(self, count: int) -> Pointer:
        floats = Pointer()
        check(self.cuda.cuMemAlloc_v2(ctypes.byref(floats), ctypes.c_size_t(4 * count)))
        bits = struct.unpack("I", struct.pack("f", 0.01))[0]
        check(self.cuda.cuMemsetD32_v2(floats, ctypes.c_uint(bits), ctypes.c_size_t(count)))
        return floats


class Launch:
    """A kernel with its grid and its arguments."""

    def __init__(
        self, gpu: Gpu, name: str, grid: tuple[int, int], block: tuple[int, int], *words: object
    ) -> None:
        function = Pointer()
        check(gpu.cuda.cuModuleGetFunction(ctypes.byref(function), gpu.module, name.encode()))
        self._kept = [ctypes.c_int(word) if isinstance(word, int) else word for word in words]
        addresses = [ctypes.addressof(word) for word in self._kept]  # type: ignore[arg-type]
        arguments = (Pointer * len(words))(*addresses)
        self._call = gpu.cuda.cuLaunchKernel
        self._words = (function, *grid, 1, *block, 1, 0, None, arguments, None)

    def __call__(self) -> None:
        check(self._call(*self._words))


def list_launches(gpu: Gpu, batch: Pointer, loss: Pointer) -> list[Launch]:
    """Return the launches of a step: products, and many small updates."""
    across = SIZE // TILE
    left, right = (gpu.make_floats(SIZE * INNER) for _ in range(2))
    launches = []
    for _ in range(LAYERS):
        words = left, right, loss, SIZE, INNER
        launches.append(Launch(gpu, "product", (across, across), (TILE, TILE), *words))
        blocks = SIZE * SIZE // THREADS
        launches.append(Launch(gpu, "squash", (blocks, 1), (THREADS, 1), loss, SIZE * SIZE))
    weights = gpu.make_floats(BATCH)
    grid = BATCH // THREADS, 1
    return launches + [
        Launch(gpu, "update", grid, (THREADS, 1), weights, batch, BATCH) for _ in range(WEIGHTS)
    ]


def make_batch(draw: random.Random) -> Sequence[float]:
    return [draw.random() for _ in range(BATCH)]


def run(kernels: Path) -> None:
    gpu = Gpu(kernels)
    batch, loss = gpu.make_floats(BATCH), gpu.make_floats(SIZE * SIZE)
    launches = list_launches(gpu, batch, loss)
    draw, read = random.Random(0), ctypes.c_float()
    domain = nvtx.open_domain("products")
    step = domain.make("step") if domain else None
    for _ in range(STEPS):
        if domain and step:
            domain.push(ctypes.addressof(step))
        floats = struct.pack(f"{BATCH}f", *make_batch(draw))
        check(gpu.cuda.cuMemcpyHtoD_v2(batch, floats, ctypes.c_size_t(len(floats))))
        for launch in launches:
            launch()
        check(gpu.cuda.cuMemcpyDtoH_v2(ctypes.byref(read), loss, ctypes.c_size_t(4)))
        if domain:
            domain.pop()
    print(f"{STEPS} steps, loss {read.value:.4f}")


if __name__ == "__main__":
    if sys.argv[1] == "compile":
        compile_kernels(Path(sys.argv[2]))
    else:
        run(Path(sys.argv[1]))
