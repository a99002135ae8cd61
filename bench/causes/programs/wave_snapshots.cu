// Waves in a plate of rock, kept for a later pass; the cause copies them to pageable memory, and waits.
// causes: pageable_copy
#include "turns.h"

const int SIDE = 4096, SWEEPS = 48, SNAPSHOTS = 4;

__global__ void spread(const float *now, float *next, const float *speed) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 2 || y < 2 || x >= SIDE - 2 || y >= SIDE - 2) return;
  const int i = y * SIDE + x;
  const float near = now[i - 1] + now[i + 1] + now[i - SIDE] + now[i + SIDE];
  const float far = now[i - 2] + now[i + 2] + now[i - 2 * SIDE] + now[i + 2 * SIDE];
  next[i] = 2 * now[i] - next[i] + speed[i] * (near * (4.0f / 3) - far / 12 - 5 * now[i]);
}

__global__ void shake(float *now, float force) { now[SIDE / 2 * SIDE + SIDE / 2] += force; }

int main(int, char **argv) {
  Turns turns(argv[1]);
  const size_t cells = size_t(SIDE) * SIDE, bytes = cells * sizeof(float);
  const dim3 threads(32, 8), blocks(SIDE / 32, SIDE / 8);
  std::vector<float> loose[SNAPSHOTS], rock(cells);
  float *pinned[SNAPSHOTS], *now, *next, *speed, *kept;
  for (size_t i = 0; i < cells; ++i) rock[i] = 0.05f + 0.05f * (i / SIDE / 512 % 3);
  for (int s = 0; s < SNAPSHOTS; ++s) {
    loose[s].resize(cells);
    CHECK(cudaMallocHost(&pinned[s], bytes));
  }
  for (float **field : {&now, &next, &speed, &kept}) CHECK(cudaMalloc(field, bytes));
  CHECK(cudaMemset(now, 0, bytes));
  CHECK(cudaMemset(next, 0, bytes));
  CHECK(cudaMemcpy(speed, rock.data(), bytes, cudaMemcpyHostToDevice));
  cudaStream_t compute, copies;
  cudaEvent_t ready, taken;
  CHECK(cudaStreamCreate(&compute));
  CHECK(cudaStreamCreate(&copies));
  CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&taken, cudaEventDisableTiming));
  CHECK(cudaEventRecord(taken, copies));
  long sweep = 0;
  for (int step = 0; turns.step(); ++step) {
    for (int part = 0; part < SWEEPS; ++part, ++sweep) {
      spread<<<blocks, threads, 0, compute>>>(now, next, speed);
      std::swap(now, next);
      shake<<<1, 1, 0, compute>>>(now, 0.01f * std::sin(0.02f * sweep));
    }
    const int place = step % SNAPSHOTS;
    if (turns.planted) {
      CHECK(cudaStreamSynchronize(compute));
      CHECK(cudaMemcpy(loose[place].data(), now, bytes, cudaMemcpyDeviceToHost));
    } else {
      CHECK(cudaStreamWaitEvent(compute, taken));
      CHECK(cudaMemcpyAsync(kept, now, bytes, cudaMemcpyDeviceToDevice, compute));
      CHECK(cudaEventRecord(ready, compute));
      CHECK(cudaStreamWaitEvent(copies, ready));
      CHECK(cudaMemcpyAsync(pinned[place], kept, bytes, cudaMemcpyDeviceToHost, copies));
      CHECK(cudaEventRecord(taken, copies));
    }
  }
  CHECK(cudaDeviceSynchronize());
  fprintf(stderr, "%g %g\n", loose[0][cells / 2], pinned[0][cells / 2]);
  turns.print();
}
