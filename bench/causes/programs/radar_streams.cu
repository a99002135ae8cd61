// Pulses of a radar filtered in four streams; the cause copies them from and to pageable memory.
// causes: pageable_copy
#include "turns.h"

constexpr int PULSES = 12, SAMPLES = 1 << 20, TAPS = 64, STREAMS = 4;

// The power behind a filter that is matched to the sent pulse; `taps` is its conjugate.
__global__ void compress(const float2 *samples, const float2 *taps, float *power) {
  __shared__ float2 seen[256 + TAPS];
  const int first = blockIdx.x * blockDim.x, i = threadIdx.x;
  for (int place = i; place < 256 + TAPS; place += blockDim.x) {
    const int sample = first + place;
    seen[place] = sample < SAMPLES ? samples[sample] : make_float2(0, 0);
  }
  __syncthreads();
  float real = 0, imaginary = 0;
  for (int tap = 0; tap < TAPS; ++tap) {
    const float2 a = seen[i + tap], b = taps[tap];
    real += a.x * b.x - a.y * b.y;
    imaginary += a.x * b.y + a.y * b.x;
  }
  power[first + i] = real * real + imaginary * imaginary;
}

struct Host {
  float2 *samples;
  float *power;
};

int main(int, char **argv) {
  Turns turns(argv[1]);
  const size_t in = sizeof(float2) * SAMPLES, out = sizeof(float) * SAMPLES;
  Host pageable, pinned;
  pageable.samples = static_cast<float2 *>(malloc(in * PULSES));
  pageable.power = static_cast<float *>(malloc(out * PULSES));
  CHECK(cudaMallocHost(&pinned.samples, in * PULSES));
  CHECK(cudaMallocHost(&pinned.power, out * PULSES));
  for (size_t i = 0; i < size_t(SAMPLES) * PULSES; ++i)
    pageable.samples[i] = pinned.samples[i] = make_float2(float(i % 1013) / 1013, float(i % 719) / 719);
  memset(pageable.power, 0, out * PULSES);
  float2 chirp[TAPS], *taps;
  for (int tap = 0; tap < TAPS; ++tap) chirp[tap] = make_float2(cosf(0.01f * tap * tap), -sinf(0.01f * tap * tap));
  CHECK(cudaMalloc(&taps, sizeof(chirp)));
  CHECK(cudaMemcpy(taps, chirp, sizeof(chirp), cudaMemcpyHostToDevice));
  cudaStream_t streams[STREAMS];
  float2 *samples[STREAMS];
  float *power[STREAMS];
  for (int s = 0; s < STREAMS; ++s) {
    CHECK(cudaStreamCreate(&streams[s]));
    CHECK(cudaMalloc(&samples[s], in));
    CHECK(cudaMalloc(&power[s], out));
  }
  float highest = 0;
  while (turns.step()) {
    const Host host = turns.planted ? pageable : pinned;
    for (int pulse = 0; pulse < PULSES; ++pulse) {
      const int s = pulse % STREAMS;
      const size_t place = size_t(pulse) * SAMPLES;
      CHECK(cudaMemcpyAsync(samples[s], host.samples + place, in, cudaMemcpyHostToDevice, streams[s]));
      compress<<<SAMPLES / 256, 256, 0, streams[s]>>>(samples[s], taps, power[s]);
      CHECK(cudaMemcpyAsync(host.power + place, power[s], out, cudaMemcpyDeviceToHost, streams[s]));
    }
    CHECK(cudaDeviceSynchronize());
    for (int pulse = 0; pulse < PULSES; ++pulse) highest = std::max(highest, host.power[size_t(pulse) * SAMPLES]);
  }
  fprintf(stderr, "%g\n", highest);
  turns.print();
}
