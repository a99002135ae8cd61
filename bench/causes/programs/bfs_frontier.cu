// Searches in breadth through a social network; the cause lists the people of the next level on the host.
// causes: idle, pageable_copy
#include "turns.h"

constexpr int PEOPLE = 1 << 20, FRIENDS = 16, SEARCHES = 4, THREADS = 256;

__device__ unsigned mix(unsigned value) {
  value ^= value >> 16, value *= 0x7feb352du;
  value ^= value >> 15, value *= 0x846ca68bu;
  return value ^ value >> 16;
}

__global__ void draw_friends(int *friends) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  friends[i] = mix(i) % PEOPLE;
}

// The friends of the people of a level that no level has yet: marked in `is_next`, or listed in `next`.
template <bool LISTED>
__global__ void visit(const int *friends, const int *level, int count, int depth, int *depths,
                      unsigned char *is_next, int *next, int *next_count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count * FRIENDS) return;
  const int person = friends[level[i / FRIENDS] * FRIENDS + i % FRIENDS];
  if (depths[person] >= 0 || atomicCAS(depths + person, -1, depth) >= 0) return;
  if (LISTED)
    next[atomicAdd(next_count, 1)] = person;
  else
    is_next[person] = 1;
}

struct Search {
  int *friends, *level, *next, *next_count, *depths;
  unsigned char *is_next;
  std::vector<unsigned char> marks = std::vector<unsigned char>(PEOPLE);
  std::vector<int> people;

  Search() {
    CHECK(cudaMalloc(&friends, sizeof(int) * PEOPLE * FRIENDS));
    CHECK(cudaMalloc(&level, sizeof(int) * PEOPLE));
    CHECK(cudaMalloc(&next, sizeof(int) * PEOPLE));
    CHECK(cudaMalloc(&next_count, sizeof(int)));
    CHECK(cudaMalloc(&depths, sizeof(int) * PEOPLE));
    CHECK(cudaMalloc(&is_next, PEOPLE));
    draw_friends<<<PEOPLE * FRIENDS / THREADS, THREADS>>>(friends);
  }

  // The number of people of the next level, which is in `level` then.
  int find_by_host(int count, int depth) {
    CHECK(cudaMemset(is_next, 0, PEOPLE));
    visit<false><<<(count * FRIENDS + THREADS - 1) / THREADS, THREADS>>>(
        friends, level, count, depth, depths, is_next, next, next_count);
    CHECK(cudaMemcpy(marks.data(), is_next, PEOPLE, cudaMemcpyDeviceToHost));
    people.clear();
    for (int person = 0; person < PEOPLE; ++person)
      if (marks[person]) people.push_back(person);
    CHECK(cudaMemcpy(level, people.data(), sizeof(int) * people.size(), cudaMemcpyHostToDevice));
    return int(people.size());
  }

  int find_by_gpu(int count, int depth) {
    CHECK(cudaMemset(next_count, 0, sizeof(int)));
    visit<true><<<(count * FRIENDS + THREADS - 1) / THREADS, THREADS>>>(
        friends, level, count, depth, depths, is_next, next, next_count);
    CHECK(cudaMemcpy(&count, next_count, sizeof(int), cudaMemcpyDeviceToHost));
    std::swap(level, next);
    return count;
  }

  // The number of levels from this person on.
  int run(int person, bool planted) {
    CHECK(cudaMemset(depths, -1, sizeof(int) * PEOPLE));
    CHECK(cudaMemset(depths + person, 0, sizeof(int)));
    CHECK(cudaMemcpy(level, &person, sizeof(int), cudaMemcpyHostToDevice));
    int depth = 0;
    for (int count = 1; count; ++depth)
      count = planted ? find_by_host(count, depth + 1) : find_by_gpu(count, depth + 1);
    return depth;
  }
};

int main(int, char **argv) {
  Turns turns(argv[1]);
  Search search;
  int levels = 0;
  for (int step = 0; turns.step(); ++step)
    for (int i = 0; i < SEARCHES; ++i) levels += search.run((step * 7919 + i * 104729) % PEOPLE, turns.planted);
  CHECK(cudaDeviceSynchronize());
  fprintf(stderr, "%d levels\n", levels);
  turns.print();
}
