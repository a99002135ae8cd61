// Waves in a volume; the cause leaves the memory pool to give its fields back at the end of each step.
// causes: allocation
#include "turns.h"

__global__ void wave(const float *now, const float *before, float *next, int n, int size) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n * n || i >= size - n * n) return;
  const float around = now[i - 1] + now[i + 1] + now[i - n] + now[i + n] + now[i - n * n] + now[i + n * n];
  next[i] = 2 * now[i] - before[i] + 0.1f * (around - 6 * now[i]);
}

__global__ void sum(const float *field, double *total, int size) {
  double mine = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) mine += field[i] * field[i];
  atomicAdd(total, mine);
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const int n = 256, size = n * n * n, threads = 256, blocks = size / threads, fields = 6;
  cudaStream_t stream;
  cudaMemPool_t pool;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  double *energy;
  CHECK(cudaMalloc(&energy, sizeof(double)));
  CHECK(cudaMemset(energy, 0, sizeof(double)));
  while (turns.step()) {
    unsigned long long threshold = turns.planted ? 0 : ~0ull;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    float *field[fields];
    for (auto &one : field) {
      CHECK(cudaMallocAsync((void **)&one, size * sizeof(float), stream));
      CHECK(cudaMemsetAsync(one, 0, size * sizeof(float), stream));
    }
    for (int round = 0; round < 60; ++round) {
      const float *now = field[(round + 1) % fields], *before = field[round % fields];
      wave<<<blocks, threads, 0, stream>>>(now, before, field[(round + 2) % fields], n, size);
    }
    sum<<<512, threads, 0, stream>>>(field[0], energy, size);
    for (auto one : field) CHECK(cudaFreeAsync(one, stream));
    CHECK(cudaStreamSynchronize(stream));
  }
  turns.print();
}
