// Smoke over a city, moved by winds that come from files; the cause copies each hour's winds from a std::vector, and waits.
//
// The fix has them in pinned memory and copies the next hour's winds in a stream of their own.
// causes: pageable_copy
#include "turns.h"

namespace {

constexpr int WIDTH = 2048, HEIGHT = 1024, LEVELS = 2;
constexpr size_t CELLS = size_t(WIDTH) * HEIGHT * LEVELS;
constexpr int HOURS = 6, SUBSTEPS = 160;

struct Wind {
  float u, v;
};

__global__ void advect(const float *now, float *next, const Wind *wind, float dt) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  size_t level = size_t(blockIdx.z) * WIDTH * HEIGHT;
  size_t i = level + size_t(y) * WIDTH + x;
  Wind w = wind[i];
  float fx = fminf(fmaxf(x - dt * w.u, 0.0f), WIDTH - 1.001f);
  float fy = fminf(fmaxf(y - dt * w.v, 0.0f), HEIGHT - 1.001f);
  int x0 = int(fx), y0 = int(fy);
  float ax = fx - x0, ay = fy - y0;
  const float *p = now + level + size_t(y0) * WIDTH + x0;
  float low = p[0] + ax * (p[1] - p[0]);
  float high = p[WIDTH] + ax * (p[WIDTH + 1] - p[WIDTH]);
  next[i] = 0.9995f * (low + ay * (high - low));
}

__global__ void emit(float *smoke, int chimneys) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= chimneys) return;
  int x = (c * 7919) % WIDTH, y = (c * 104729) % HEIGHT;
  smoke[size_t(y) * WIDTH + x] += 0.1f;
}

class Smoke {
public:
  Smoke() {
    for (float *&field : fields_) {
      CHECK(cudaMalloc(&field, CELLS * sizeof(float)));
      CHECK(cudaMemset(field, 0, CELLS * sizeof(float)));
    }
  }

  void run_hour(const Wind *wind, cudaStream_t stream) {
    const dim3 block(32, 8), grid(WIDTH / 32, HEIGHT / 8, LEVELS);
    for (int s = 0; s < SUBSTEPS; ++s) {
      emit<<<4, 128, 0, stream>>>(fields_[0], 500);
      advect<<<grid, block, 0, stream>>>(fields_[0], fields_[1], wind, 0.4f);
      std::swap(fields_[0], fields_[1]);
    }
  }

private:
  float *fields_[2];
};

std::vector<Wind> read_hour(int hour) {
  std::vector<Wind> winds(CELLS);
  for (size_t i = 0; i < CELLS; ++i)
    winds[i] = {2 + sinf(0.001f * (i % WIDTH) + hour), cosf(0.002f * (i / WIDTH) + hour)};
  return winds;
}

} // namespace

int main(int argc, char **argv) {
  Turns turns(argv[1]);
  std::vector<std::vector<Wind>> hours;
  Wind *pinned[HOURS];
  for (int hour = 0; hour < HOURS; ++hour) {
    hours.push_back(read_hour(hour));
    CHECK(cudaMallocHost(&pinned[hour], CELLS * sizeof(Wind)));
    memcpy(pinned[hour], hours[hour].data(), CELLS * sizeof(Wind));
  }
  Wind *winds[2];
  cudaStream_t compute, copy;
  cudaEvent_t copied[2], used[2];
  CHECK(cudaStreamCreate(&compute));
  CHECK(cudaStreamCreate(&copy));
  for (int slot = 0; slot < 2; ++slot) {
    CHECK(cudaMalloc(&winds[slot], CELLS * sizeof(Wind)));
    CHECK(cudaEventCreateWithFlags(&copied[slot], cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&used[slot], cudaEventDisableTiming));
  }
  Smoke smoke;
  long hour = 0;
  while (turns.step()) {
    const int slot = hour % 2, which = hour % HOURS;
    ++hour;
    if (turns.planted) {
      CHECK(cudaMemcpy(winds[slot], hours[which].data(), CELLS * sizeof(Wind), cudaMemcpyHostToDevice));
      smoke.run_hour(winds[slot], compute);
      CHECK(cudaStreamSynchronize(compute));
      continue;
    }
    CHECK(cudaStreamWaitEvent(copy, used[slot]));
    CHECK(cudaMemcpyAsync(winds[slot], pinned[which], CELLS * sizeof(Wind), cudaMemcpyHostToDevice, copy));
    CHECK(cudaEventRecord(copied[slot], copy));
    CHECK(cudaStreamWaitEvent(compute, copied[slot]));
    smoke.run_hour(winds[slot], compute);
    CHECK(cudaEventRecord(used[slot], compute));
  }
  turns.print();
}
