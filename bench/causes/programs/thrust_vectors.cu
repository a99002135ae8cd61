// Periods of a star that changes its light; the cause makes Thrust's vectors anew for each trial, the fix keeps them.
// causes: allocation
#include "turns.h"
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/sequence.h>
#include <thrust/transform.h>

using Vector = thrust::device_vector<float>;
const int harmonics = 24;

struct Fold {
  double frequency;
  __host__ __device__ float operator()(double time) const {
    const double turns = time * frequency;
    return static_cast<float>(turns - floor(turns));
  }
};

// What the light of one time adds to the harmonics, as a cosine or as a sine.
struct Weigh {
  float shift;
  __host__ __device__ float operator()(float phase, float light) const {
    float sum = 0;
    for (int harmonic = 1; harmonic <= harmonics; ++harmonic)
      sum += cosf(6.2831853f * (harmonic * phase + shift)) / harmonic;
    return sum * light;
  }
};

__global__ void sum_squares(const float *cosines, const float *sines, double *power, int times) {
  double mine = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < times; i += gridDim.x * blockDim.x)
    mine += cosines[i] * cosines[i] + sines[i] * sines[i];
  for (int lane = 16; lane > 0; lane /= 2) mine += __shfl_down_sync(~0u, mine, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(power, mine);
}

struct Trial {
  Vector phases, cosines, sines;
  explicit Trial(size_t times) : phases(times), cosines(times), sines(times) {}
};

void measure(Trial &trial, const thrust::device_vector<double> &times, const Vector &light, double frequency,
             double *power) {
  const auto policy = thrust::cuda::par_nosync;
  thrust::transform(policy, times.begin(), times.end(), trial.phases.begin(), Fold{frequency});
  thrust::transform(policy, trial.phases.begin(), trial.phases.end(), light.begin(), trial.cosines.begin(), Weigh{0});
  thrust::transform(policy, trial.phases.begin(), trial.phases.end(), light.begin(), trial.sines.begin(),
                    Weigh{-0.25f});
  sum_squares<<<528, 256>>>(thrust::raw_pointer_cast(trial.cosines.data()),
                            thrust::raw_pointer_cast(trial.sines.data()), power, int(times.size()));
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const size_t count = 1 << 23, trials = 16;
  thrust::device_vector<double> times(count), powers(trials);
  Vector light(count);
  thrust::sequence(times.begin(), times.end(), 0.0, 0.02);
  thrust::sequence(light.begin(), light.end(), 1.0f, 1e-7f);
  std::vector<double> host(trials);
  Trial kept(count);
  while (turns.step()) {
    double *power = thrust::raw_pointer_cast(powers.data());
    CHECK(cudaMemsetAsync(power, 0, trials * sizeof(double)));
    for (size_t t = 0; t < trials; ++t) {
      const double frequency = 0.1 + 0.001 * t;
      if (turns.planted) {
        Trial fresh(count);
        measure(fresh, times, light, frequency, power + t);
      } else {
        measure(kept, times, light, frequency, power + t);
      }
    }
    CHECK(cudaMemcpy(host.data(), power, trials * sizeof(double), cudaMemcpyDeviceToHost));
  }
  fprintf(stderr, "%g\n", host[0]);
  turns.print();
}
