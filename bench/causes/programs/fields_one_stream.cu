// Fields seen by a satellite, band by band; the cause copies and filters all tiles in one stream, the fix in four.
// causes: exposed_copy
#include "turns.h"

const int side = 2048, bands = 4, tiles = 12, streams = 4, radius = 7;

// A bilateral filter of the first band, and the share of plants by the other ones.
__global__ void filter(const float *tile, float *out) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  const int i = y * side + x;
  const float here = tile[i];
  float sum = 0, weights = 0;
  for (int dy = -radius; dy <= radius; ++dy)
    for (int dx = -radius; dx <= radius; ++dx) {
      const int row = min(max(y + dy, 0), side - 1), column = min(max(x + dx, 0), side - 1);
      const float there = tile[row * side + column], step = there - here;
      const float weight = expf(-0.02f * (dx * dx + dy * dy) - 8 * step * step);
      sum += weight * there;
      weights += weight;
    }
  const float red = tile[side * side + i], infrared = tile[2 * side * side + i], water = tile[3 * side * side + i];
  out[i] = sum / weights * (infrared - red) / (infrared + red + water + 0.1f);
}

// The mean of each square of 16 by 16 points.
__global__ void shrink(const float *filtered, float *means) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 16; ++column) sum += filtered[(16 * y + row) * side + 16 * x + column];
  means[y * (side / 16) + x] = sum / 256;
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const size_t points = side * side, tile_bytes = sizeof(float) * points * bands;
  const size_t mean_points = points / 256, mean_bytes = sizeof(float) * mean_points;
  float *host, *host_means, *tile[streams], *filtered[streams], *means[streams];
  cudaStream_t stream[streams];
  CHECK(cudaMallocHost(&host, tile_bytes * tiles));
  CHECK(cudaMallocHost(&host_means, mean_bytes * tiles));
  for (size_t i = 0; i < points * bands * tiles; ++i) host[i] = 0.001f * (i % 997);
  for (int s = 0; s < streams; ++s) {
    CHECK(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
    CHECK(cudaMalloc(&tile[s], tile_bytes));
    CHECK(cudaMalloc(&filtered[s], sizeof(float) * points));
    CHECK(cudaMalloc(&means[s], mean_bytes));
  }
  const dim3 threads(32, 8), blocks(side / 32, side / 8), few_blocks(side / 16 / 32, side / 16 / 8);
  while (turns.step()) {
    for (int t = 0; t < tiles; ++t) {
      const int s = turns.planted ? 0 : t % streams;
      CHECK(cudaMemcpyAsync(tile[s], host + t * points * bands, tile_bytes, cudaMemcpyHostToDevice, stream[s]));
      filter<<<blocks, threads, 0, stream[s]>>>(tile[s], filtered[s]);
      shrink<<<few_blocks, threads, 0, stream[s]>>>(filtered[s], means[s]);
      CHECK(cudaMemcpyAsync(host_means + t * mean_points, means[s], mean_bytes, cudaMemcpyDeviceToHost, stream[s]));
    }
    CHECK(cudaDeviceSynchronize());
  }
  fprintf(stderr, "%g\n", host_means[0]);
  turns.print();
}
