/* umad DEVICE GID PEER relay|serve|ask [SEGMENTS]
 *
 * Administration's MADs on queue pair 1 of a software RDMA device, whose own address is GID, to and from PEER (both as
 * the kernel's `gids` files have them). `relay` hands single MADs of 256 bytes between the wire and its standard input
 * and output; whoever holds the pipe has to know RMPP. With the others it is the kernel that does: `serve` answers
 * each GetTable with as many segments as its AttributeModifier says, `ask` asks for as many and prints the answer,
 * its length first. Segments hold 200 bytes, and byte n of a message is n * 31 + n / 200.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <rdma/ib_user_mad.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MAD = 256, HEADER = 56, ROOM = 200, GET_TABLE = 0x12, RESPONSE = 0x80, MOST = 10000, WAIT = 60000 };

static struct buffer {
    struct ib_user_mad_hdr to;
    uint8_t mad[HEADER + (MOST + 1) * ROOM];
} out, in;
static int device;
static uint32_t agent;

static void fail(const char *what)
{
    fprintf(stderr, "umad: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* The number at the end of the file of that pattern which holds that line. */
static int find(const char *pattern, const char *line)
{
    glob_t files;
    if (glob(pattern, 0, NULL, &files))
        fail(pattern);
    for (size_t n = 0; n < files.gl_pathc; n++) {
        char text[64] = "";
        FILE *file = fopen(files.gl_pathv[n], "r");
        if (file && fgets(text, sizeof text, file) && (text[strcspn(text, "\n")] = 0, !strcmp(text, line))) {
            const char *name = files.gl_pathv[n], *number = strstr(name, "/umad");
            return atoi(number ? number + 5 : strrchr(name, '/') + 1);
        }
        if (file)
            fclose(file);
    }
    errno = ENOENT;
    fail(line);
    return -1;
}

static void begin(const char *name, const char *gid, const char *peer, int rmpp, int answers)
{
    char path[128];
    struct ib_user_mad_reg_req request = {.qpn = 1, .mgmt_class = 3, .mgmt_class_version = 2, .rmpp_version = rmpp};
    snprintf(path, sizeof path, "/dev/infiniband/umad%d", find("/sys/class/infiniband_mad/umad*/ibdev", name));
    device = open(path, O_RDWR);
    if (device < 0)
        fail(path);
    if (ioctl(device, IB_USER_MAD_ENABLE_PKEY))
        fail("pkey");
    if (answers) /* One program a device may. */
        ((uint8_t *)request.method_mask)[GET_TABLE / 8] |= 1 << GET_TABLE % 8;
    if (ioctl(device, IB_USER_MAD_REGISTER_AGENT, &request))
        fail("register");
    agent = request.id;
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/gids/*", name);
    out.to = (struct ib_user_mad_hdr){.id = agent, .qpn = htonl(1), .qkey = htonl(0x80010000), .grh_present = 1,
                                      .gid_index = find(path, gid), .hop_limit = 64};
    /* An empty MAD says that what comes from now on is heard. */
    if (answers && write(1, in.mad, MAD) != MAD)
        fail("write");
    for (int n = 0; n < 16; n += 2) {
        uint16_t word = htons(strtol(peer + 5 * n / 2, NULL, 16));
        memcpy(out.to.gid + n, &word, 2);
    }
}

static void send_mad(size_t length, int timeout)
{
    out.to.timeout_ms = timeout;
    while (write(device, &out, sizeof out.to + length) < 0)
        if (errno != EAGAIN && errno != EINTR)
            fail("send");
}

/* Bytes of a MAD that came; 0: what was sent came back, its time is over. */
static size_t receive_mad(void)
{
    ssize_t length = read(device, &in, sizeof in);
    if (length < (ssize_t)sizeof in.to)
        fail("receive");
    return in.to.status ? 0 : length - sizeof in.to;
}

static void header(int method, uint32_t modifier)
{
    memset(out.mad, 0, HEADER);
    memcpy(out.mad, (uint8_t[]){1, 3, 2, method}, 4);
    out.mad[17] = 0x11; /* NodeRecord */
    modifier = htonl(modifier);
    memcpy(out.mad + 20, &modifier, 4);
}

static void serve(void)
{
    for (;;) {
        if (!receive_mad() || in.mad[3] != GET_TABLE)
            continue;
        uint32_t segments;
        memcpy(&segments, in.mad + 20, 4);
        segments = ntohl(segments);
        if (segments > MOST)
            continue;
        header(GET_TABLE | RESPONSE, segments);
        memcpy(out.mad + 8, in.mad + 8, 8);
        memcpy(out.mad + 24, (uint8_t[]){1, 1, 1}, 3); /* RMPP, DATA, active */
        out.mad[45] = ROOM / 8;
        for (uint32_t n = 0; n < segments * ROOM; n++)
            out.mad[HEADER + n] = n * 31 + n / ROOM;
        out.to.retries = 20;
        /* From 1 to 2000 ms the kernel waits once, and never sends again what is lost later (send_next_seg in
         * drivers/infiniband/core/mad_rmpp.c leaves the time as it was added to the clock); above, 2 s each. */
        send_mad(HEADER + segments * ROOM, 2001);
    }
}

static void ask(uint32_t segments)
{
    header(GET_TABLE, segments);
    out.mad[15] = 7;
    send_mad(MAD, WAIT);
    size_t length = receive_mad();
    uint32_t count = length;
    if (!length)
        errno = ETIMEDOUT, fail("answer");
    fwrite(&count, 4, 1, stdout);
    fwrite(in.mad, length, 1, stdout);
    fclose(stdout);
    /* An older kernel acknowledges what comes again for as long as its program lives. */
    getchar();
}

static void relay(void)
{
    struct pollfd wait[] = {{.fd = 0, .events = POLLIN}, {.fd = device, .events = POLLIN}};
    for (;;) {
        if (poll(wait, 2, -1) < 0)
            fail("poll");
        if (wait[0].revents) {
            for (size_t got = 0, more; got < MAD; got += more) {
                more = read(0, out.mad + got, MAD - got);
                if ((ssize_t)more <= 0)
                    exit(0);
            }
            /* Of a request the kernel wants to know how long its answer may take. */
            send_mad(MAD, out.mad[3] & RESPONSE || out.mad[26] & 1 ? 0 : WAIT);
        }
        if (wait[1].revents && receive_mad() && write(1, in.mad, MAD) != MAD)
            exit(0);
    }
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    begin(argv[1], argv[2], argv[3], strcmp(argv[4], "relay") != 0, strcmp(argv[4], "ask") != 0);
    if (!strcmp(argv[4], "relay"))
        relay();
    if (!strcmp(argv[4], "serve"))
        serve();
    if (argc > 5)
        ask(strtoul(argv[5], NULL, 0));
    return 0;
}
