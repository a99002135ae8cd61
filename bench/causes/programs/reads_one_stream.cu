// Reads of DNA aligned with genes (Smith and Waterman), sample by sample; the cause has one stream for all samples.
//
// A sample has few reads, so its kernel fills a part of the GPU. The fix has eight streams.
// causes: unused_gpu
#include "turns.h"

constexpr int SAMPLES = 24, READS = 16, READ = 256, GENE = 8192, STREAMS = 8;

__device__ unsigned mix(unsigned value) {
  value ^= value >> 16, value *= 0x7feb352du;
  value ^= value >> 15, value *= 0x846ca68bu;
  return value ^ value >> 16;
}

__global__ void draw(char *letters, int count, unsigned seed) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) letters[i] = "ACGT"[mix(i + seed) % 4];
}

// The score of the best alignment of each read: a block a read, a thread a letter, diagonal by diagonal.
__global__ void align(const char *genes, const char *reads, int *best) {
  __shared__ int last[2][READ + 1];
  const int letter_place = threadIdx.x;
  const char letter = reads[blockIdx.x * READ + letter_place];
  const char *gene = genes + blockIdx.x * GENE;
  last[0][letter_place + 1] = last[1][letter_place + 1] = 0;
  if (letter_place == 0) last[0][0] = last[1][0] = 0;
  __syncthreads();
  int up = 0, corner = 0, most = 0;
  for (int diagonal = 0; diagonal < GENE + READ - 1; ++diagonal) {
    const int place = diagonal - letter_place, left = last[(diagonal + 1) & 1][letter_place];
    int here = 0;
    if (place >= 0 && place < GENE) {
      const int matched = corner + (gene[place] == letter ? 2 : -1);
      here = max(max(matched, 0), max(up, left) - 1);
      most = max(most, here);
      up = here;
    }
    corner = left;
    last[diagonal & 1][letter_place + 1] = here;
    __syncthreads();
  }
  atomicMax(&best[blockIdx.x], most);
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const int read_letters = SAMPLES * READS * READ, gene_letters = SAMPLES * READS * GENE;
  char *reads, *genes;
  int *best, *scores;
  CHECK(cudaMalloc(&reads, read_letters));
  CHECK(cudaMalloc(&genes, gene_letters));
  CHECK(cudaMalloc(&best, sizeof(int) * SAMPLES * READS));
  CHECK(cudaMallocHost(&scores, sizeof(int) * SAMPLES * READS));
  draw<<<(read_letters + 255) / 256, 256>>>(reads, read_letters, 1);
  draw<<<(gene_letters + 255) / 256, 256>>>(genes, gene_letters, 1000003);
  cudaStream_t streams[STREAMS];
  for (cudaStream_t &stream : streams) CHECK(cudaStreamCreate(&stream));
  CHECK(cudaDeviceSynchronize());
  long total = 0;
  while (turns.step()) {
    for (int sample = 0; sample < SAMPLES; ++sample) {
      const cudaStream_t stream = streams[turns.planted ? 0 : sample % STREAMS];
      const int first = sample * READS;
      CHECK(cudaMemsetAsync(best + first, 0, sizeof(int) * READS, stream));
      align<<<READS, READ, 0, stream>>>(genes + first * GENE, reads + first * READ, best + first);
      CHECK(cudaMemcpyAsync(scores + first, best + first, sizeof(int) * READS, cudaMemcpyDeviceToHost, stream));
    }
    CHECK(cudaDeviceSynchronize());
    for (int read = 0; read < SAMPLES * READS; ++read) total += scores[read];
  }
  fprintf(stderr, "%ld\n", total);
  turns.print();
}
