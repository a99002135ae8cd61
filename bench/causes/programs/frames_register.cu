// Video frames that a filter smooths; the cause pins and unpins the buffer of each frame.
// causes: allocation
#include "turns.h"

__global__ void smooth(const uchar4 *in, uchar4 *out, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const uchar4 me = in[y * width + x];
  float3 sum = {0, 0, 0};
  float total = 0;
  for (int dy = -7; dy <= 7; ++dy)
    for (int dx = -7; dx <= 7; ++dx) {
      const int u = min(max(x + dx, 0), width - 1), v = min(max(y + dy, 0), height - 1);
      const uchar4 other = in[v * width + u];
      const float r = other.x - float(me.x), g = other.y - float(me.y), b = other.z - float(me.z);
      const float weight = __expf(-0.02f * (dx * dx + dy * dy) - 0.0005f * (r * r + g * g + b * b));
      sum.x += weight * other.x, sum.y += weight * other.y, sum.z += weight * other.z;
      total += weight;
    }
  out[y * width + x] = make_uchar4(sum.x / total, sum.y / total, sum.z / total, 255);
}

__global__ void count(const uchar4 *in, unsigned *bins, int pixels) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < pixels) atomicAdd(&bins[in[i].y], 1u);
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const int width = 1920, height = 1080, pixels = width * height, frames = 4;
  const size_t bytes = pixels * sizeof(uchar4);
  const dim3 threads(32, 8), blocks((width + 31) / 32, (height + 7) / 8);
  std::vector<uchar4> loose[frames], pinned[frames];
  for (int f = 0; f < frames; ++f) {
    loose[f].resize(pixels), pinned[f].resize(pixels);
    for (int i = 0; i < pixels; ++i) {
      const unsigned char shade = (i / 64 + 40 * f) ^ (rand() & 15);
      loose[f][i] = pinned[f][i] = make_uchar4(shade, shade / 2, 255 - shade, 255);
    }
    CHECK(cudaHostRegister(pinned[f].data(), bytes, cudaHostRegisterDefault));
  }
  uchar4 *in, *out;
  unsigned *bins, *result, total = 0;
  cudaStream_t stream;
  CHECK(cudaMalloc(&in, bytes));
  CHECK(cudaMalloc(&out, bytes));
  CHECK(cudaMalloc(&bins, 256 * sizeof(unsigned)));
  CHECK(cudaMallocHost(&result, 256 * sizeof(unsigned)));
  CHECK(cudaStreamCreate(&stream));
  while (turns.step()) {
    for (int f = 0; f < frames; ++f) {
      uchar4 *frame = turns.planted ? loose[f].data() : pinned[f].data();
      if (turns.planted) CHECK(cudaHostRegister(frame, bytes, cudaHostRegisterDefault));
      CHECK(cudaMemcpyAsync(in, frame, bytes, cudaMemcpyHostToDevice, stream));
      CHECK(cudaMemsetAsync(bins, 0, 256 * sizeof(unsigned), stream));
      smooth<<<blocks, threads, 0, stream>>>(in, out, width, height);
      smooth<<<blocks, threads, 0, stream>>>(out, in, width, height);
      count<<<(pixels + 255) / 256, 256, 0, stream>>>(in, bins, pixels);
      CHECK(cudaMemcpyAsync(result, bins, 256 * sizeof(unsigned), cudaMemcpyDeviceToHost, stream));
      CHECK(cudaStreamSynchronize(stream));
      if (turns.planted) CHECK(cudaHostUnregister(frame));
      total += result[128];
    }
  }
  fprintf(stderr, "%u\n", total);
  turns.print();
}
