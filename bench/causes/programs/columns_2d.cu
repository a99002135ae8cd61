// Heat in a plate; the cause copies the plate's edge, a few columns of each row, to the host as it lies.
// causes: low_bandwidth
#include "turns.h"

__global__ void relax(const float *old, float *next, int n) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1) return;
  const size_t i = size_t(y) * n + x;
  next[i] = 0.25f * (old[i - 1] + old[i + 1] + old[i - n] + old[i + n]);
}

__global__ void pack(const float *plate, float *edge, int n, int columns) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n * columns) edge[i] = plate[size_t(i / columns) * n + i % columns];
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const int n = 16384, columns = 16;
  const size_t plate = size_t(n) * n * sizeof(float), row = columns * sizeof(float);
  const dim3 threads(64, 4), blocks(n / 64, n / 4);
  float *a, *b, *edge, *host;
  CHECK(cudaMalloc(&a, plate));
  CHECK(cudaMalloc(&b, plate));
  CHECK(cudaMalloc(&edge, n * row));
  CHECK(cudaMallocHost(&host, n * row));
  CHECK(cudaMemset(a, 0, plate));
  CHECK(cudaMemset(b, 0, plate));
  double total = 0;
  while (turns.step()) {
    for (int sweep = 0; sweep < 2; ++sweep) {
      relax<<<blocks, threads>>>(a, b, n);
      std::swap(a, b);
    }
    if (turns.planted) {
      CHECK(cudaMemcpy2DAsync(host, row, a, n * sizeof(float), row, n, cudaMemcpyDeviceToHost));
    } else {
      pack<<<n * columns / 256, 256>>>(a, edge, n, columns);
      CHECK(cudaMemcpyAsync(host, edge, n * row, cudaMemcpyDeviceToHost));
    }
    CHECK(cudaDeviceSynchronize());
    total += host[n];
  }
  fprintf(stderr, "%g\n", total);
  turns.print();
}
