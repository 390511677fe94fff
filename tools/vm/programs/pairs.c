/* pairs ROUNDS [stay]: every rank exchanges with every other, then all with all. Prints what it did, and how long it took
 * until MPI_Init returned and until all had met. MPI only. With `stay` it keeps its connections until it is killed, and
 * never calls MPI_Finalize, in which over rdma_rxe one of three ranks or more may wait for ever, of MPICH and of Open MPI,
 * with our library and without. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    int rank, ranks, rounds = argc > 1 ? atoi(argv[1]) : 100;
    double began = now(), made, met;
    char *out, *in;

    MPI_Init(&argc, &argv);
    made = now() - began;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    out = calloc(ranks, 1024);
    in = calloc(ranks, 1024);
    MPI_Alltoall(out, 1024, MPI_BYTE, in, 1024, MPI_BYTE, MPI_COMM_WORLD);
    met = now() - began;
    for (int round = 0; round < rounds; round++)
        for (int step = 1; step < ranks; step++) {
            int to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
            MPI_Sendrecv(out, 1024, MPI_BYTE, to, 0, in, 1024, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    MPI_Alltoall(out, 1024, MPI_BYTE, in, 1024, MPI_BYTE, MPI_COMM_WORLD);
    printf("rank %d of %d: %d rounds, MPI_Init %.1f ms, met %.1f ms\n", rank, ranks, rounds, made, met);
    fflush(stdout);
    if (argc > 2)
        pause();
    MPI_Finalize();
    return 0;
}
