// Scans of a lidar on a grid; the cause takes pinned memory for each scan and frees it, the fix keeps it.
// causes: allocation
#include "turns.h"

constexpr int POINTS = 2'000'000, SIDE = 1024, SCANS = 2, NEAR = 400;

struct Point { float x, y, z; };

// The height of each cell.
__global__ void raise(const Point *points, int *heights) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= POINTS) return;
  const Point p = points[i];
  const int column = min(max(static_cast<int>(p.x * SIDE), 0), SIDE - 1);
  const int row = min(max(static_cast<int>(p.y * SIDE), 0), SIDE - 1);
  atomicMax(heights + row * SIDE + column, static_cast<int>(1000 * p.z));
}

// How much of a cell's surroundings is lower than the cell.
__global__ void find_open(const int *heights, float *open) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, row = i / SIDE, column = i % SIDE;
  float sum = 0;
  for (int k = 1; k <= NEAR; ++k) {
    const float angle = 2.4f * k, far = 3 * sqrtf(k);
    const int y = min(max(row + static_cast<int>(far * __sinf(angle)), 0), SIDE - 1);
    const int x = min(max(column + static_cast<int>(far * __cosf(angle)), 0), SIDE - 1);
    sum += atanf((heights[i] - heights[y * SIDE + x]) / far);
  }
  open[i] = sum / NEAR;
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const size_t bytes = POINTS * sizeof(Point);
  std::vector<Point> scan(POINTS);
  for (int i = 0; i < POINTS; ++i)
    scan[i] = {(i * 2654435761u >> 8) / float(1 << 24), (i * 40503u & 65535) / 65536.0f, (i % 97) / 97.0f};
  Point *kept, *points;
  int *heights;
  float *open;
  CHECK(cudaMallocHost(&kept, bytes));
  CHECK(cudaMalloc(&points, bytes));
  CHECK(cudaMalloc(&heights, SIDE * SIDE * sizeof(int)));
  CHECK(cudaMalloc(&open, SIDE * SIDE * sizeof(float)));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  while (turns.step())
    for (int i = 0; i < SCANS; ++i) {
      Point *pinned = kept;
      if (turns.planted) CHECK(cudaMallocHost(&pinned, bytes));
      memcpy(pinned, scan.data(), bytes);
      CHECK(cudaMemcpyAsync(points, pinned, bytes, cudaMemcpyHostToDevice, stream));
      CHECK(cudaMemsetAsync(heights, 0, SIDE * SIDE * sizeof(int), stream));
      raise<<<(POINTS + 255) / 256, 256, 0, stream>>>(points, heights);
      for (int pass = 0; pass < 8; ++pass) find_open<<<SIDE * SIDE / 256, 256, 0, stream>>>(heights, open);
      CHECK(cudaStreamSynchronize(stream));
      if (turns.planted) CHECK(cudaFreeHost(pinned));
    }
  float middle;
  CHECK(cudaMemcpy(&middle, open + SIDE * SIDE / 2, sizeof(middle), cudaMemcpyDeviceToHost));
  fprintf(stderr, "%g\n", middle);
  turns.print();
}
