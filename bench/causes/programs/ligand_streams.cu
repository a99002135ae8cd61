// Ligands docked to a protein in four streams; the cause allocates the poses of each ligand and frees them.
// causes: allocation
#include "turns.h"

constexpr int LIGANDS = 16, POSES = 1 << 15, ATOMS = 40, PROTEIN = 512, STREAMS = 4, THREADS = 256;

// Atom `i` of the ligand in each pose: turned around an axis and moved.
__global__ void place(const float4 *ligand, float4 *placed, float turn) {
  const int pose = blockIdx.x * blockDim.x + threadIdx.x;
  float sine, cosine;
  sincosf(turn * pose, &sine, &cosine);
  for (int i = 0; i < ATOMS; ++i) {
    const float4 a = ligand[i];
    placed[size_t(i) * POSES + pose] =
        make_float4(cosine * a.x - sine * a.y, sine * a.x + cosine * a.y, a.z + 1e-4f * pose, a.w);
  }
}

// The energy of an atom of each pose with all atoms of the protein (Lennard-Jones and charges).
__global__ void measure(const float4 *placed, const float4 *protein, float *energies) {
  __shared__ float4 seen[THREADS];
  const size_t at = size_t(blockIdx.y) * POSES + blockIdx.x * blockDim.x + threadIdx.x;
  const float4 a = placed[at];
  float energy = 0;
  for (int first = 0; first < PROTEIN; first += THREADS) {
    __syncthreads();
    seen[threadIdx.x] = protein[first + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < THREADS; ++i) {
      const float4 b = seen[i];
      const float x = a.x - b.x, y = a.y - b.y, z = a.z - b.z;
      const float inverse = rsqrtf(x * x + y * y + z * z + 1), square = inverse * inverse;
      const float six = square * square * square;
      energy += six * six - six + a.w * b.w * inverse;
    }
  }
  energies[at] = energy;
}

__global__ void add(const float *energies, float *scores) {
  const int pose = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int i = 0; i < ATOMS; ++i) sum += energies[size_t(i) * POSES + pose];
  scores[pose] = sum;
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const size_t placed_bytes = sizeof(float4) * POSES * ATOMS, energy_bytes = sizeof(float) * POSES * ATOMS;
  std::vector<float4> host(PROTEIN + ATOMS);
  for (size_t i = 0; i < host.size(); ++i)
    host[i] = make_float4(float(i % 31), float(i % 29), float(i % 23), i % 2 ? 0.3f : -0.3f);
  float4 *protein, *kept_placed[STREAMS];
  float *kept_energies[STREAMS], *scores;
  cudaStream_t streams[STREAMS];
  CHECK(cudaMalloc(&protein, sizeof(float4) * host.size()));
  CHECK(cudaMemcpy(protein, host.data(), sizeof(float4) * host.size(), cudaMemcpyHostToDevice));
  CHECK(cudaMalloc(&scores, sizeof(float) * POSES * LIGANDS));
  for (int s = 0; s < STREAMS; ++s) {
    CHECK(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));
    CHECK(cudaMalloc(&kept_placed[s], placed_bytes));
    CHECK(cudaMalloc(&kept_energies[s], energy_bytes));
  }
  float best = 0;
  while (turns.step()) {
    for (int ligand = 0; ligand < LIGANDS; ++ligand) {
      const int s = ligand % STREAMS;
      float4 *placed = kept_placed[s];
      float *energies = kept_energies[s];
      if (turns.planted) {
        CHECK(cudaMalloc(&placed, placed_bytes));
        CHECK(cudaMalloc(&energies, energy_bytes));
      }
      float *mine = scores + size_t(ligand) * POSES;
      place<<<POSES / THREADS, THREADS, 0, streams[s]>>>(protein + PROTEIN, placed, 0.01f + 0.001f * ligand);
      measure<<<dim3(POSES / THREADS, ATOMS), THREADS, 0, streams[s]>>>(placed, protein, energies);
      add<<<POSES / THREADS, THREADS, 0, streams[s]>>>(energies, mine);
      if (turns.planted) {
        CHECK(cudaFree(placed));
        CHECK(cudaFree(energies));
      }
    }
    CHECK(cudaDeviceSynchronize());
    float first;
    CHECK(cudaMemcpy(&first, scores, sizeof(first), cudaMemcpyDeviceToHost));
    best = std::min(best, first);
  }
  fprintf(stderr, "%g\n", best);
  turns.print();
}
