// handles DEVICE PEER STRANGER: makes address handles in every way in which a program may come by ibv_create_ah, and
// from threads and children while it forks. PEER and STRANGER are GIDs. A line for each way says what came of it.
//
// Compiled with -DPLUGIN it is a library that makes them. The program opens two of these, plugin.so and deep.so.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct ibv_ah *make_fn(struct ibv_pd *, struct ibv_ah_attr *);

#ifdef PLUGIN
struct ibv_ah *plugin_make(struct ibv_pd *pd, struct ibv_ah_attr *attr) { return ibv_create_ah(pd, attr); }
#else

#define FOLDER "/usr/local/bin" // where tools/vm/run puts programs

enum { CHILDREN = 8, HANDLES = 20, TIMED = 200, PATIENCE = 30 };

static const char *device_name, *peer;
static atomic_int stop, failed;

static struct ibv_pd *open_device(void) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    for (int i = 0; list && list[i]; i++)
        if (!strcmp(ibv_get_device_name(list[i]), device_name)) {
            struct ibv_context *context = ibv_open_device(list[i]);
            return context ? ibv_alloc_pd(context) : NULL;
        }
    return NULL;
}

// 0, or the error.
static int make_one(make_fn *make, struct ibv_pd *pd, const char *gid) {
    struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 1, .hop_limit = 64 } };
    if (inet_pton(AF_INET6, gid, attr.grh.dgid.raw) != 1) return EINVAL;
    errno = 0;
    struct ibv_ah *handle = make(pd, &attr);
    if (!handle) return errno ? errno : EIO;
    ibv_destroy_ah(handle);
    return 0;
}

static void *make_many(void *pd) {
    while (!stop) failed += make_one(ibv_create_ah, pd, peer) != 0;
    return NULL;
}

static int child(void) {
    alarm(PATIENCE);
    struct ibv_pd *pd = open_device(); // what the parent has open is the parent's
    int bad = !pd;
    for (int i = 0; pd && i < HANDLES; i++) bad += make_one(ibv_create_ah, pd, peer) != 0;
    return bad != 0;
}

static void say(const char *way, make_fn *make, struct ibv_pd *pd, const char *gid) {
    if (!make) printf("%s: %s\n", way, dlerror());
    else {
        int why = make_one(make, pd, gid);
        printf("%s: %s\n", way, why == ENETUNREACH ? "refused" : why ? strerror(why) : "not refused");
    }
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    device_name = argv[1], peer = argv[2];
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct ibv_pd *pd = open_device();
    if (!pd) return perror(device_name), 1;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, make_many, pd);
    int bad = 0;
    for (int i = 0; i < CHILDREN; i++) {
        pid_t pid = fork();
        if (pid == 0) _exit(child());
        int status = 1;
        waitpid(pid, &status, 0);
        bad += status != 0;
    }
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("forked %d times, %d of them badly; handles of threads that failed: %d\n", CHILDREN, bad, failed);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < TIMED; i++) bad += make_one(ibv_create_ah, pd, peer) != 0;
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("%.0f us a handle\n", ((to.tv_sec - from.tv_sec) * 1e6 + (to.tv_nsec - from.tv_nsec) / 1e3) / TIMED);
    say("linked", ibv_create_ah, pd, argv[3]);
    void *plain = dlopen(FOLDER "/plugin.so", RTLD_NOW | RTLD_LOCAL);
    say("library by dlopen", plain ? dlsym(plain, "plugin_make") : NULL, pd, argv[3]);
    void *verbs = dlopen("libibverbs.so.1", RTLD_NOW);
    say("dlvsym of libibverbs", verbs ? dlvsym(verbs, "ibv_create_ah", "IBVERBS_1.1") : NULL, pd, argv[3]);
    void *deep = dlopen(FOLDER "/deep.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    say("library by RTLD_DEEPBIND", deep ? dlsym(deep, "plugin_make") : NULL, pd, argv[3]);
    return bad || failed;
}
#endif
