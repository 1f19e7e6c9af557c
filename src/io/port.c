/* SPDX-License-Identifier: Apache-2.0 */
#include "io/port.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/netns.h"

enum {
    STATE_LISTEN = 10, /* TCP_LISTEN; its header clashes with ours */
    REPLY_MAX = 32 * 1024,
    LINKS_MAX = 1 << 20, /* descriptors looked at for one name */
};

#define HELD_BY ", held by "

/* ---- sockets of another namespace ---- */

/* -1 with errno. */
static int socket_in(int netns_fd, int family, int type, int protocol)
{
    const struct sw_netns_socket kind = {family, type, protocol};
    int fd = -1;

    if (sw_netns_socket(netns_fd, kind, &fd, NULL) != SW_OK && errno == 0)
        errno = EACCES;
    return fd;
}

/* ---- the kernel's table ---- */

struct walk {
    void (*fn)(const struct sw_port_holder *h, void *arg);
    void *arg;
    uint16_t port;
};

static struct sw_addr addr_of(const struct inet_diag_msg *m)
{
    struct sockaddr_storage ss = {0};

    if (m->idiag_family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ss;

        in6->sin6_family = AF_INET6;
        in6->sin6_port = m->id.idiag_sport;
        memcpy(&in6->sin6_addr, m->id.idiag_src, sizeof(in6->sin6_addr));
    } else {
        struct sockaddr_in *in = (struct sockaddr_in *)&ss;

        in->sin_family = AF_INET;
        in->sin_port = m->id.idiag_sport;
        memcpy(&in->sin_addr, m->id.idiag_src, sizeof(in->sin_addr));
    }
    return sw_addr_from_sockaddr(&ss);
}

static void report(const struct walk *w, struct nlmsghdr *h)
{
    struct inet_diag_msg *m = NLMSG_DATA(h);
    struct sw_port_holder out;
    struct rtattr *a;
    int left;

    if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
        return;
    out = (struct sw_port_holder){.at = addr_of(m), .uid = m->idiag_uid, .inode = m->idiag_inode};
    if (w->port && out.at.port != w->port)
        return;
    left = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof(*m))); /* RTA_NEXT may take more than is left */
    for (a = (struct rtattr *)(m + 1); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
        if (a->rta_type == INET_DIAG_SKV6ONLY && RTA_PAYLOAD(a) >= 1)
            out.v6only = *(const uint8_t *)RTA_DATA(a) != 0;
    }
    w->fn(&out, w->arg);
}

/* SW_OK: all was read; SW_EAGAIN: more will come. */
static int read_reply(const struct walk *w, void *buf, size_t n, struct sw_err *err)
{
    for (struct nlmsghdr *h = buf; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
        if (h->nlmsg_type == NLMSG_DONE)
            return SW_OK;
        if (h->nlmsg_type == NLMSG_ERROR) {
            const struct nlmsgerr *e = NLMSG_DATA(h);

            return sw_err_sys(err, h->nlmsg_len >= NLMSG_LENGTH(sizeof(*e)) ? -e->error : EPROTO,
                              "cannot read the table of sockets");
        }
        report(w, h);
    }
    return SW_EAGAIN;
}

static int dump(int nl, const struct walk *w, int family, bool udp, struct sw_err *err)
{
    struct {
        struct nlmsghdr h;
        struct inet_diag_req_v2 r;
    } req = {
        .h = {.nlmsg_len = sizeof(req),
              .nlmsg_type = SOCK_DIAG_BY_FAMILY,
              .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .r = {.sdiag_family = (uint8_t)family,
              .sdiag_protocol = udp ? IPPROTO_UDP : IPPROTO_TCP,
              .idiag_states = udp ? UINT32_MAX : 1U << STATE_LISTEN,
              .id = {.idiag_sport = htons(w->port)}},
    };
    SW_AUTO_FREE void *buf = sw_malloc(REPLY_MAX);
    int rc = SW_EAGAIN;

    if (send(nl, &req, sizeof(req), 0) != (ssize_t)sizeof(req))
        return sw_err_sys(err, errno, "cannot ask for the table of sockets");
    while (rc == SW_EAGAIN) {
        ssize_t n = recv(nl, buf, REPLY_MAX, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return sw_err_sys(err, n < 0 ? errno : EPROTO, "cannot read the table of sockets");
        rc = read_reply(w, buf, (size_t)n, err);
    }
    return rc;
}

int sw_port_holders(int netns_fd, uint16_t port, bool udp,
                    void (*fn)(const struct sw_port_holder *h, void *arg), void *arg,
                    struct sw_err *err)
{
    const struct walk w = {.fn = fn, .arg = arg, .port = port};
    SW_AUTO_FD nl = socket_in(netns_fd, AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG);
    int rc;

    if (nl < 0)
        return sw_err_sys(err, errno, "cannot ask for the table of sockets");
    rc = dump(nl, &w, AF_INET, udp, err);
    return rc == SW_OK ? dump(nl, &w, AF_INET6, udp, err) : rc;
}

bool sw_port_overlaps(const struct sw_addr *at, const struct sw_port_holder *h)
{
    bool any = sw_ip_is_any(&at->ip);
    bool their_any = sw_ip_is_any(&h->at.ip);

    if (at->port != h->at.port)
        return false;
    if (at->ip.family == h->at.ip.family)
        return any || their_any || sw_ip_eq(&at->ip, &h->at.ip);
    return at->ip.family == 6 ? any : their_any && !h->v6only;
}

struct find {
    const struct sw_addr *at;
    const char *group;
    int netns_fd;
    bool found;
    struct sw_port_holder *ret;
};

static void on_holder(const struct sw_port_holder *h, void *arg)
{
    struct find *f = arg;

    if (f->found || !sw_port_overlaps(f->at, h) ||
        (f->group && sw_port_is_marked(f->netns_fd, f->group, h->inode)))
        return;
    f->found = true;
    *f->ret = *h;
}

int sw_port_find_foreign(int netns_fd, const struct sw_addr *at, bool udp, const char *group,
                         struct sw_port_holder *ret, struct sw_err *err)
{
    struct find f = {.at = at, .group = group, .netns_fd = netns_fd, .ret = ret};
    int rc = sw_port_holders(netns_fd, at->port, udp, on_holder, &f, err);

    if (rc != SW_OK)
        return rc;
    return f.found ? SW_OK : SW_ENOENT;
}

bool sw_port_has_foreign(int netns_fd, const struct sw_addr *at, bool udp, const char *group)
{
    static atomic_flag logged = ATOMIC_FLAG_INIT;
    struct sw_port_holder h;
    struct sw_err err = {0};
    int rc;

    if (at->port == 0)
        return false; /* the kernel gives a free one */
    rc = sw_port_find_foreign(netns_fd, at, udp, group, &h, &err);
    if (rc != SW_OK && rc != SW_ENOENT && !atomic_flag_test_and_set(&logged))
        sw_log_warn("io", "cannot detect other processes of this user on our ports: %s", err.msg);
    return rc == SW_OK;
}

/* ---- marks ---- */

static socklen_t mark_name(const char *group, uint32_t inode, struct sockaddr_un *ret)
{
    int n;

    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    n = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "spanwire/%.*s/%u",
                 SW_PORT_GROUP_MAX, group, inode);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int sw_port_share(int netns_fd, const char *group, int fd, int *ret_mark, struct sw_err *err)
{
    SW_AUTO_FD mark = socket_in(netns_fd, AF_UNIX, SOCK_DGRAM, 0);
    struct sockaddr_un name;
    struct stat st;
    socklen_t n;
    int one = 1;

    if (mark < 0 || fstat(fd, &st) != 0)
        return sw_err_sys(err, errno, "cannot mark a shared port");
    n = mark_name(group, (uint32_t)st.st_ino, &name);
    if (bind(mark, (const struct sockaddr *)&name, n) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) != 0)
        return sw_err_sys(err, errno, "cannot share a port");
    *ret_mark = SW_TAKE_FD(mark);
    return SW_OK;
}

bool sw_port_is_marked(int netns_fd, const char *group, uint32_t inode)
{
    SW_AUTO_FD fd = socket_in(netns_fd, AF_UNIX, SOCK_DGRAM, 0);
    struct sockaddr_un name;
    socklen_t n = mark_name(group, inode, &name);

    return fd >= 0 && connect(fd, (const struct sockaddr *)&name, n) == 0;
}

/* ---- names ---- */

/* Up to cap - 1 bytes of a file in a directory of /proc, as text. */
static size_t read_proc(int dir, const char *name, char *buf, size_t cap)
{
    SW_AUTO_FD fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, buf, cap - 1) : 0;

    buf[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* "spanwire" alone is ambiguous: the role is the first argument. */
static void name_of(int dir, const char *pid, char *buf, size_t cap)
{
    char comm[32];
    char args[256];
    size_t n = read_proc(dir, "cmdline", args, sizeof(args));
    size_t first = strlen(args) + 1;
    const char *role = "";

    (void)read_proc(dir, "comm", comm, sizeof(comm));
    comm[strcspn(comm, "\n")] = '\0';
    if (strcmp(comm, "spanwire") == 0 && n > first && args[first] != '-')
        role = args + first;
    for (char *p = comm; *p; p++)
        *p = (char)((unsigned char)*p < ' ' || *p == 0x7f ? '?' : *p);
    (void)snprintf(buf, cap, "%s%s%.32s (pid %s)", comm, role[0] ? " " : "", role, pid);
}

/* A role of ours, of that user: it hides its descriptors (io/sandbox.h). */
static bool is_role_of(int dir, uint32_t uid)
{
    char text[1024];
    const char *line;

    (void)read_proc(dir, "comm", text, sizeof(text));
    if (strcmp(text, "spanwire\n") != 0)
        return false;
    (void)read_proc(dir, "status", text, sizeof(text));
    line = strstr(text, "\nUid:\t");
    return line && strtoul(line + strlen("\nUid:\t"), NULL, 10) == uid;
}

/* True when the process has the socket open. */
static bool has_socket(int proc, const char *pid, const char *link, int *links)
{
    char path[32];
    char text[64];
    bool found = false;
    DIR *d;
    int fd;

    (void)snprintf(path, sizeof(path), "%.20s/fd", pid);
    fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        if (fd >= 0)
            (void)close(fd);
        return false;
    }
    for (const struct dirent *e = readdir(d); e && !found && (*links)-- > 0; e = readdir(d)) {
        ssize_t n = readlinkat(fd, e->d_name, text, sizeof(text) - 1);

        text[n > 0 ? n : 0] = '\0';
        found = strcmp(text, link) == 0;
    }
    (void)closedir(d);
    return found;
}

void sw_port_holder_name(const struct sw_port_holder *h, char *buf, size_t cap)
{
    DIR *d = opendir("/proc");
    int links = LINKS_MAX;
    char link[32];
    char role[96];
    int roles = 0;
    bool found = false;

    (void)snprintf(link, sizeof(link), "socket:[%u]", h->inode);
    (void)snprintf(buf, cap, "another process (uid %u)", h->uid);
    for (const struct dirent *e = d ? readdir(d) : NULL; e && !found && links > 0; e = readdir(d)) {
        if (e->d_name[0] < '1' || e->d_name[0] > '9' || h->inode == 0)
            continue;
        SW_AUTO_FD dir = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (dir < 0)
            continue;
        found = has_socket(dirfd(d), e->d_name, link, &links);
        if (found)
            name_of(dir, e->d_name, buf, cap);
        else if (faccessat(dir, "fd", R_OK, AT_EACCESS) != 0 && is_role_of(dir, h->uid) &&
                 roles++ == 0)
            name_of(dir, e->d_name, role, sizeof(role));
    }
    if (!found && roles == 1)
        (void)snprintf(buf, cap, "a process of uid %u, probably %s", h->uid, role);
    if (d)
        (void)closedir(d);
}

void sw_port_explain(int netns_fd, const struct sw_addr *at, bool udp, const char *group,
                     struct sw_err *err)
{
    struct sw_port_holder h;
    size_t used;
    char name[96];
    int rc;

    if (!err)
        return;
    rc = sw_port_find_foreign(netns_fd, at, udp, group, &h, NULL);
    if (rc == SW_ENOENT && group)
        rc = sw_port_find_foreign(netns_fd, at, udp, NULL, &h, NULL);
    if (rc != SW_OK)
        return;
    sw_port_holder_name(&h, name, sizeof(name));
    used = strlen(err->msg);
    (void)snprintf(err->msg + used, sizeof(err->msg) - used, HELD_BY "%s", name);
}

static struct sw_slice without_holder(const char *msg)
{
    const char *holder = strstr(msg, HELD_BY);

    return sw_slice(msg, holder ? (size_t)(holder - msg) : strlen(msg));
}

bool sw_port_same_cause(const char *a, const char *b)
{
    return sw_slice_eq(without_holder(a), without_holder(b));
}

/* ---- successors ---- */

void sw_port_group_name(char buf[SW_PORT_GROUP_MAX], const char *role, const char *name,
                        const char *source)
{
    if (name)
        (void)snprintf(buf, SW_PORT_GROUP_MAX, "%s/%.48s", role, name);
    else
        (void)snprintf(buf, SW_PORT_GROUP_MAX, "%s:%016" PRIx64, role,
                       sw_siphash13(0, 0, source, strlen(source)));
}

void sw_port_allow_migration(void)
{
    SW_AUTO_FD fd = open("/proc/sys/net/ipv4/tcp_migrate_req", O_WRONLY | O_CLOEXEC);

    if (fd >= 0)
        (void)!write(fd, "1\n", 2);
}
