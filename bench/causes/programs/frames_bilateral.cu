// Frames of an endoscope smoothed by a bilateral filter; the cause copies and filters on one stream.
// The copies of a frame could run beside the filter of another, as the memory is pinned. The fix takes
// two streams with buffers of their own in turns.
// causes: exposed_copy
#include "turns.h"

const int SIDE = 2048, FRAMES = 16, STREAMS = 2, RADIUS = 5;

__global__ void smooth(const float *frame, float *result, float range) {
  int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column >= SIDE || row >= SIDE) return;
  float center = frame[row * SIDE + column], sum = 0, weights = 0;
  for (int y = -RADIUS; y <= RADIUS; ++y)
    for (int x = -RADIUS; x <= RADIUS; ++x) {
      int i = min(max(row + y, 0), SIDE - 1), j = min(max(column + x, 0), SIDE - 1);
      float value = frame[i * SIDE + j], away = value - center;
      float weight = __expf(-(x * x + y * y) * 0.04f - away * away * range);
      sum += weight * value;
      weights += weight;
    }
  result[row * SIDE + column] = sum / weights;
}

struct Lane {
  cudaStream_t stream;
  float *frame, *result;
};

int main(int, char **argv) {
  Turns turns(argv[1]);
  const size_t pixels = size_t(SIDE) * SIDE, bytes = pixels * sizeof(float);
  float *taken, *smoothed;
  CHECK(cudaMallocHost(&taken, FRAMES * bytes));
  CHECK(cudaMallocHost(&smoothed, FRAMES * bytes));
  for (size_t i = 0; i < FRAMES * pixels; ++i) taken[i] = float((i * 2654435761u >> 7) % 256);
  Lane lanes[STREAMS];
  for (auto &lane : lanes) {
    CHECK(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&lane.frame, bytes));
    CHECK(cudaMalloc(&lane.result, bytes));
  }
  const dim3 threads(32, 8), blocks(SIDE / 32, SIDE / 8);
  while (turns.step()) {
    for (int i = 0; i < FRAMES; ++i) {
      Lane &lane = lanes[turns.planted ? 0 : i % STREAMS];
      CHECK(cudaMemcpyAsync(lane.frame, taken + i * pixels, bytes, cudaMemcpyHostToDevice,
                            lane.stream));
      smooth<<<blocks, threads, 0, lane.stream>>>(lane.frame, lane.result, 2e-3f);
      CHECK(cudaMemcpyAsync(smoothed + i * pixels, lane.result, bytes, cudaMemcpyDeviceToHost,
                            lane.stream));
    }
    for (auto &lane : lanes) CHECK(cudaStreamSynchronize(lane.stream));
  }
  turns.print();
}
