// A volume from the projections of a CT scanner; the cause makes an array and a texture for each of them.
// causes: allocation
#include "turns.h"

constexpr int SIDE = 256, WIDTH = 512, HEIGHT = 512, ANGLES = 60, TAPS = 32, THREADS = 128;
constexpr size_t ROW = WIDTH * sizeof(float);

__global__ void fill(float *projections) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned mixed = i * 2654435761u;
  mixed ^= mixed >> 15, mixed *= 0x846ca68bu;
  projections[i] = (mixed >> 8) * 5.9604645e-8f;
}

// Each row convolved with a ramp filter.
__global__ void filter(const float *projection, float *filtered) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.y * WIDTH;
  float sum = 0.25f * projection[first + column];
  for (int tap = 1; tap <= TAPS; tap += 2) {
    const float left = column >= tap ? projection[first + column - tap] : 0;
    const float right = column + tap < WIDTH ? projection[first + column + tap] : 0;
    sum -= (left + right) / (9.8696044f * tap * tap);
  }
  filtered[first + column] = sum;
}

// Adds to each voxel what the ray through it has brought.
__global__ void project_back(cudaTextureObject_t rays, float *volume, float sine, float cosine) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, z = blockIdx.z;
  const float east = x - SIDE / 2 + 0.5f, north = y - SIDE / 2 + 0.5f;
  const float depth = 1000 / (1000 + east * sine - north * cosine);
  const float column = WIDTH / 2 + 1.5f * depth * (east * cosine + north * sine);
  const float row = HEIGHT / 2 + 1.5f * depth * (z - SIDE / 2 + 0.5f);
  volume[(z * SIDE + y) * SIDE + x] += depth * depth * tex2D<float>(rays, column, row);
}

struct Rays {
  cudaArray_t array;
  cudaTextureObject_t texture;

  Rays() {
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocArray(&array, &format, WIDTH, HEIGHT));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc reading = {};
    reading.addressMode[0] = reading.addressMode[1] = cudaAddressModeBorder;
    reading.filterMode = cudaFilterModeLinear;
    CHECK(cudaCreateTextureObject(&texture, &resource, &reading, nullptr));
  }

  void add(const float *filtered, float *volume, int angle) const {
    CHECK(cudaMemcpy2DToArrayAsync(array, 0, 0, filtered, ROW, ROW, HEIGHT, cudaMemcpyDeviceToDevice, 0));
    const float turn = 6.2831853f * angle / ANGLES;
    project_back<<<dim3(SIDE / THREADS, SIDE, SIDE), THREADS>>>(texture, volume, sinf(turn), cosf(turn));
  }

  void free() const {
    CHECK(cudaFreeArray(array));
    CHECK(cudaDestroyTextureObject(texture));
  }
};

int main(int, char **argv) {
  Turns turns(argv[1]);
  float *projections, *filtered, *volume;
  CHECK(cudaMalloc(&projections, ANGLES * ROW * HEIGHT));
  CHECK(cudaMalloc(&filtered, ROW * HEIGHT));
  CHECK(cudaMalloc(&volume, sizeof(float) * SIDE * SIDE * SIDE));
  fill<<<ANGLES * WIDTH * HEIGHT / THREADS, THREADS>>>(projections);
  const Rays kept;
  while (turns.step()) {
    CHECK(cudaMemsetAsync(volume, 0, sizeof(float) * SIDE * SIDE * SIDE));
    for (int angle = 0; angle < ANGLES; ++angle) {
      filter<<<dim3(WIDTH / THREADS, HEIGHT), THREADS>>>(projections + size_t(angle) * WIDTH * HEIGHT, filtered);
      if (turns.planted) {
        const Rays rays;
        rays.add(filtered, volume, angle);
        rays.free();
      } else {
        kept.add(filtered, volume, angle);
      }
    }
  }
  CHECK(cudaDeviceSynchronize());
  float middle;
  CHECK(cudaMemcpy(&middle, volume + SIDE * SIDE * SIDE / 2, sizeof(float), cudaMemcpyDeviceToHost));
  fprintf(stderr, "%f\n", middle);
  turns.print();
}
