// peers DEVICE PEER: what a process does that meets peers while MPI_Init runs - for each an address handle, by
// which they find each other, and a queue pair that becomes ready to receive - and how long that takes by their number.
// PEER is the GID of another device. One queue pair stands for all.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 3, KINDS = 4 };
static const int PEERS[KINDS] = { 1, 3, 10, 100 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void must(int is, const char *what) {
    if (!is) perror(what), exit(1);
}

// Milliseconds of what the library has a part in.
static double meet(struct ibv_pd *pd, struct ibv_qp *qp, const char *peer) {
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
    must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "reset");
    attr = (struct ibv_qp_attr) { .qp_state = IBV_QPS_INIT, .port_num = 1 };
    must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "init");
    attr = (struct ibv_qp_attr) { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = 17, .min_rnr_timer = 12,
        .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 1, .hop_limit = 64 } } };
    must(inet_pton(AF_INET6, peer, attr.ah_attr.grh.dgid.raw) == 1, peer);
    double began = now();
    struct ibv_ah *handle = ibv_create_ah(pd, &attr.ah_attr);
    must(handle != NULL, "an address handle");
    must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "ready to receive");
    double took = now() - began;
    ibv_destroy_ah(handle);
    return took;
}

static int less(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = NULL;
    for (int i = 0; list && list[i]; i++)
        if (!strcmp(ibv_get_device_name(list[i]), argv[1])) context = ibv_open_device(list[i]);
    must(context != NULL, argv[1]);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    must(pd && cq, "a domain and a queue of completions");
    struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    must(qp != NULL, "a queue pair");
    meet(pd, qp, argv[2]);
    for (int kind = 0; kind < KINDS; kind++) {
        double runs[RUNS];
        for (int run = 0; run < RUNS; run++) {
            runs[run] = 0;
            for (int peer = 0; peer < PEERS[kind]; peer++) runs[run] += meet(pd, qp, argv[2]);
        }
        qsort(runs, RUNS, sizeof *runs, less);
        printf("%d peers %.3f ms\n", PEERS[kind], runs[RUNS / 2]);
    }
    return 0;
}
