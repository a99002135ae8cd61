// X-rays of a factory's parts cleaned one by one; the cause keeps them in a std::vector, the fix in pinned memory.
// causes: pageable_copy
#include "turns.h"

const int columns = 4096, rows = 3072, plates = 8, radius = 4;
const size_t points = size_t(columns) * rows;

// A bilateral filter of a plate without the detector's dark current, as bytes.
__global__ void clean(const unsigned short *plate, const float *dark, unsigned char *out) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  const int i = y * columns + x;
  const float here = plate[i] - dark[i];
  float sum = 0, weights = 0;
  for (int dy = -radius; dy <= radius; ++dy)
    for (int dx = -radius; dx <= radius; ++dx) {
      const int row = min(max(y + dy, 0), rows - 1), column = min(max(x + dx, 0), columns - 1);
      const float there = plate[row * columns + column] - dark[row * columns + column];
      const float step = 0.001f * (there - here);
      const float weight = expf(-0.04f * (dx * dx + dy * dy) - step * step);
      sum += weight * there;
      weights += weight;
    }
  out[i] = static_cast<unsigned char>(fminf(fmaxf(sum / weights / 256, 0), 255));
}

__global__ void fill(float *dark) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  dark[i] = 100 + i % 17;
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  std::vector<unsigned short> taken(points * plates);
  std::vector<unsigned char> cleaned(points * plates);
  for (size_t i = 0; i < taken.size(); ++i) taken[i] = static_cast<unsigned short>(20000 + i % 997);
  unsigned short *pinned_taken, *plate;
  unsigned char *pinned_cleaned, *out;
  float *dark;
  CHECK(cudaMallocHost(&pinned_taken, points * plates * sizeof(unsigned short)));
  CHECK(cudaMallocHost(&pinned_cleaned, points * plates));
  memcpy(pinned_taken, taken.data(), points * plates * sizeof(unsigned short));
  CHECK(cudaMalloc(&plate, points * sizeof(unsigned short)));
  CHECK(cudaMalloc(&out, points));
  CHECK(cudaMalloc(&dark, points * sizeof(float)));
  fill<<<points / 256, 256>>>(dark);
  const dim3 threads(32, 8), blocks(columns / 32, rows / 8);
  while (turns.step()) {
    const unsigned short *from = turns.planted ? taken.data() : pinned_taken;
    unsigned char *to = turns.planted ? cleaned.data() : pinned_cleaned;
    for (int p = 0; p < plates; ++p) {
      CHECK(cudaMemcpy(plate, from + p * points, points * sizeof(unsigned short), cudaMemcpyHostToDevice));
      clean<<<blocks, threads>>>(plate, dark, out);
      CHECK(cudaMemcpy(to + p * points, out, points, cudaMemcpyDeviceToHost));
    }
  }
  fprintf(stderr, "%d\n", cleaned[0]);
  turns.print();
}
