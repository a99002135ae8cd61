// Says its options, meets the other ranks, and names the NCCL that it found.
#include <cstdio>
#include <cstring>

#include <mpi.h>
#include <nccl.h>

__global__ void count_wrong(int *wrong) { *wrong = 0; }

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "-h") == 0) {
        puts("USAGE: stand-in [-b,--minbytes <min size in bytes>]");
        return 0;
    }
    int version = 0, rank = 0, size = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ncclGetVersion(&version);
    if (argc > 2) count_wrong<<<1, 1>>>(nullptr);
    printf("rank %d of %d, NCCL %d\n", rank, size, version);
    return MPI_Finalize();
}
