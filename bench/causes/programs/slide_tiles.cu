// Tiles of a microscope's slide made clean in four streams; the cause waits for each tile before the next.
// causes: synchronization
#include "turns.h"

constexpr int TILES = 16, SIDE = 512, STREAMS = 4, REACH = 5, PATCH = 1, CELLS = SIDE * SIDE;

// Non-local means: each pixel becomes the mean of pixels near it, weighted by how alike their surroundings are.
__global__ void clean(const float *tile, float *cleaned, float sharpness) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, rows = blockDim.y * gridDim.y;
  for (int y = blockIdx.y * blockDim.y + threadIdx.y; y < SIDE; y += rows) {
    float sum = 0, weights = 0;
    for (int v = -REACH; v <= REACH; ++v)
      for (int u = -REACH; u <= REACH; ++u) {
        float distance = 0;
        for (int j = -PATCH; j <= PATCH; ++j)
          for (int i = -PATCH; i <= PATCH; ++i) {
            const float here = tile[((y + j) & (SIDE - 1)) * SIDE + ((x + i) & (SIDE - 1))];
            const float there = tile[((y + v + j) & (SIDE - 1)) * SIDE + ((x + u + i) & (SIDE - 1))];
            distance += (here - there) * (here - there);
          }
        const float weight = __expf(-sharpness * distance);
        sum += weight * tile[((y + v) & (SIDE - 1)) * SIDE + ((x + u) & (SIDE - 1))];
        weights += weight;
      }
    cleaned[y * SIDE + x] = sum / weights;
  }
}

__global__ void stretch(float *tile, float low, float high) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < CELLS; i += blockDim.x * gridDim.x)
    tile[i] = fminf(fmaxf((tile[i] - low) / (high - low), 0.f), 1.f);
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const size_t bytes = sizeof(float) * CELLS;
  float *slide, *result, *tiles[STREAMS], *cleaned[STREAMS];
  cudaStream_t streams[STREAMS];
  CHECK(cudaMallocHost(&slide, bytes * TILES));
  CHECK(cudaMallocHost(&result, bytes * TILES));
  for (size_t i = 0; i < size_t(CELLS) * TILES; ++i) slide[i] = float((i * 2654435761u) % 1021) / 1021;
  for (int s = 0; s < STREAMS; ++s) {
    CHECK(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));
    CHECK(cudaMalloc(&tiles[s], bytes));
    CHECK(cudaMalloc(&cleaned[s], bytes));
  }
  const dim3 block(32, 8), grid(SIDE / 32, 4);
  while (turns.step()) {
    for (int tile = 0; tile < TILES; ++tile) {
      const int s = tile % STREAMS;
      const size_t at = size_t(tile) * CELLS;
      CHECK(cudaMemcpyAsync(tiles[s], slide + at, bytes, cudaMemcpyHostToDevice, streams[s]));
      clean<<<grid, block, 0, streams[s]>>>(tiles[s], cleaned[s], 8);
      stretch<<<64, 256, 0, streams[s]>>>(cleaned[s], 0.2f, 0.8f);
      CHECK(cudaMemcpyAsync(result + at, cleaned[s], bytes, cudaMemcpyDeviceToHost, streams[s]));
      if (turns.planted) CHECK(cudaStreamSynchronize(streams[s]));
    }
    for (cudaStream_t stream : streams) CHECK(cudaStreamSynchronize(stream));
  }
  turns.print();
}
