// Noise taken off medical images; the cause asks for all properties of the GPU before each kernel.
//
// It needs them to choose the number of blocks. The fix asks once.
// causes: idle, host_bound
#include "turns.h"

constexpr int SIDE = 1024, ROUNDS = 12, THREADS = 256;

// The blocks that fill the GPU once.
int count_blocks() {
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  return properties.multiProcessorCount * (properties.maxThreadsPerMultiProcessor / THREADS);
}

__device__ float at(const float *image, int y, int x) {
  return image[min(max(y, 0), SIDE - 1) * SIDE + min(max(x, 0), SIDE - 1)];
}

__global__ void fill(float *image, int seed) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < SIDE * SIDE; i += gridDim.x * blockDim.x)
    image[i] = float((i * 2654435761u + seed) >> 16 & 1023) / 1024;
}

// The edges of both directions, as weights of diffusion (Perona and Malik).
__global__ void find_edges(const float *image, float *edges) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < SIDE * SIDE; i += gridDim.x * blockDim.x) {
    const int y = i / SIDE, x = i % SIDE;
    const float across = at(image, y, x + 1) - at(image, y, x - 1);
    const float down = at(image, y + 1, x) - at(image, y - 1, x);
    edges[i] = expf(-(across * across + down * down) / 0.04f);
  }
}

__global__ void diffuse(const float *image, const float *edges, float *next) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < SIDE * SIDE; i += gridDim.x * blockDim.x) {
    const int y = i / SIDE, x = i % SIDE;
    const float here = image[i];
    float flow = 0;
    for (int side = 0; side < 4; ++side) {
      const int dy = side == 0 ? -1 : side == 1, dx = side == 2 ? -1 : side == 3;
      flow += at(edges, y + dy, x + dx) * (at(image, y + dy, x + dx) - here);
    }
    next[i] = here + 0.2f * flow;
  }
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  float *image, *next, *edges;
  for (float **array : {&image, &next, &edges}) CHECK(cudaMalloc(array, sizeof(float) * SIDE * SIDE));
  const int blocks = count_blocks();
  for (int step = 0; turns.step(); ++step) {
    fill<<<turns.planted ? count_blocks() : blocks, THREADS>>>(image, step);
    for (int round = 0; round < ROUNDS; ++round) {
      find_edges<<<turns.planted ? count_blocks() : blocks, THREADS>>>(image, edges);
      diffuse<<<turns.planted ? count_blocks() : blocks, THREADS>>>(image, edges, next);
      std::swap(image, next);
    }
  }
  CHECK(cudaDeviceSynchronize());
  turns.print();
}
