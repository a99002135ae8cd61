// Faults sought in a seismic volume that is larger than the GPU's share of memory; the cause copies and reads in turn.
//
// It copies each slab in the stream that works on it. The fix copies the next slab in a second stream.
// causes: exposed_copy
#include "turns.h"

constexpr int DEPTH = 256, COLUMNS = 512, ROWS = 128, SLABS = 8, REACH = 2, WINDOW = 6;
constexpr int TRACES = ROWS * COLUMNS, POINTS = TRACES * DEPTH;

__device__ int clamp(int value, int size) { return min(max(value, 0), size - 1); }

// The semblance of each point: how alike the traces around it are. The lowest of each trace is kept.
__global__ void find_faults(const float *slab, float *lowest) {
  const int z = threadIdx.x, x = blockIdx.x, y = blockIdx.y;
  float likeness = 0, energy = 1e-6f;
  for (int k = -WINDOW; k <= WINDOW; ++k) {
    float sum = 0;
    for (int j = -REACH; j <= REACH; ++j)
      for (int i = -REACH; i <= REACH; ++i) {
        const int trace = clamp(y + j, ROWS) * COLUMNS + clamp(x + i, COLUMNS);
        const float value = slab[trace * DEPTH + clamp(z + k, DEPTH)];
        sum += value;
        energy += value * value;
      }
    likeness += sum * sum;
  }
  __shared__ float values[DEPTH];
  values[z] = likeness / (energy * (2 * REACH + 1) * (2 * REACH + 1));
  __syncthreads();
  for (int gap = DEPTH / 2; gap; gap /= 2) {
    if (z < gap) values[z] = fminf(values[z], values[z + gap]);
    __syncthreads();
  }
  if (z == 0) lowest[y * COLUMNS + x] = values[0];
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const size_t bytes = sizeof(float) * POINTS, map_bytes = sizeof(float) * TRACES;
  float *volume, *faults, *map, *slabs[2];
  CHECK(cudaMallocHost(&volume, bytes * SLABS));
  CHECK(cudaMallocHost(&faults, map_bytes * SLABS));
  CHECK(cudaMalloc(&map, map_bytes * SLABS));
  for (size_t i = 0; i < size_t(POINTS) * SLABS; ++i) volume[i] = float(unsigned(i) * 2654435761u >> 16) / 65536 - 0.5f;
  cudaStream_t compute, ahead;
  cudaEvent_t filled[2], used[2];
  CHECK(cudaStreamCreate(&compute));
  CHECK(cudaStreamCreate(&ahead));
  for (int side = 0; side < 2; ++side) {
    CHECK(cudaMalloc(&slabs[side], bytes));
    CHECK(cudaEventCreateWithFlags(&filled[side], cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&used[side], cudaEventDisableTiming));
  }
  double total = 0;
  while (turns.step()) {
    const cudaStream_t copies = turns.planted ? compute : ahead;
    for (int slab = 0; slab < SLABS; ++slab) {
      const int side = slab % 2;
      CHECK(cudaStreamWaitEvent(copies, used[side]));
      CHECK(cudaMemcpyAsync(slabs[side], volume + size_t(slab) * POINTS, bytes, cudaMemcpyHostToDevice, copies));
      CHECK(cudaEventRecord(filled[side], copies));
      CHECK(cudaStreamWaitEvent(compute, filled[side]));
      find_faults<<<dim3(COLUMNS, ROWS), DEPTH, 0, compute>>>(slabs[side], map + slab * TRACES);
      CHECK(cudaEventRecord(used[side], compute));
    }
    CHECK(cudaMemcpyAsync(faults, map, map_bytes * SLABS, cudaMemcpyDeviceToHost, compute));
    CHECK(cudaStreamSynchronize(compute));
    total += faults[TRACES / 2];
  }
  fprintf(stderr, "%g\n", total);
  turns.print();
}
