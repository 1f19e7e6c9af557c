/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/agent/netns.h"

#include <ctype.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/file.h"
#include "base/search.h"
#include "base/vec.h"
#include "io/netns.h"

enum { TEXT_MAX = 16 << 10, PATH_LEN = 512 };

/* ---- whose process it is ---- */

/* Of a static pod: the digest of its file. */
static bool digest_at(const char *p, size_t n, char *ret)
{
    for (size_t i = 0; i < SW_POD_DIGEST_LEN; i++) {
        if (i == n || !isxdigit((unsigned char)p[i]))
            return false;
        ret[i] = p[i];
    }
    ret[SW_POD_DIGEST_LEN] = '\0';
    return n == SW_POD_DIGEST_LEN || !isalnum((unsigned char)p[SW_POD_DIGEST_LEN]);
}

static bool uid_at(const char *p, size_t n, char *ret)
{
    static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

    if (digest_at(p, n, ret))
        return true;
    if (n < SW_POD_UID_LEN)
        return false;
    for (size_t i = 0; i < SW_POD_UID_LEN; i++) {
        bool dash = form[i] == '-';

        if (dash ? p[i] != '-' && p[i] != '_' : !isxdigit((unsigned char)p[i]))
            return false;
        ret[i] = dash ? '-' : p[i];
    }
    ret[SW_POD_UID_LEN] = '\0';
    return true;
}

bool sw_pod_uid_of_cgroup(struct sw_slice text, char ret[SW_POD_UID_LEN + 1])
{
    for (size_t i = 0; i + 3 < text.n; i++) {
        if (memcmp(text.p + i, "pod", 3) == 0 && i > 0 &&
            (text.p[i - 1] == '/' || text.p[i - 1] == '-') &&
            uid_at(text.p + i + 3, text.n - i - 3, ret))
            return true;
    }
    return false;
}

/* A file about a process; the text is the caller's. */
static bool read_of(const char *proc, const char *pid, const char *name, struct sw_slice *ret)
{
    char path[PATH_LEN];

    (void)snprintf(path, sizeof(path), "%s/%s/%s", proc, pid, name);
    return sw_file_read(path, TEXT_MAX, ret, NULL) == SW_OK;
}

/* False: of no pod. */
static bool uid_of(const char *proc, const char *pid, char ret[SW_POD_UID_LEN + 1])
{
    struct sw_slice text = {0};
    bool yes = read_of(proc, pid, "cgroup", &text) && sw_pod_uid_of_cgroup(text, ret);

    sw_slice_free(&text);
    return yes;
}

static bool is_of_pod(const char *proc, const char *pid, struct sw_slice uid)
{
    char found[SW_POD_UID_LEN + 1];

    return uid_of(proc, pid, found) && sw_slice_eq_str(uid, found);
}

/* Field 22 of stat: when it started; UINT64_MAX when it cannot be read. */
static uint64_t start_time(const char *proc, const char *pid)
{
    struct sw_slice text = {0};
    struct sw_slice rest;
    uint64_t n = UINT64_MAX;

    if (!read_of(proc, pid, "stat", &text))
        return n;
    /* The name, in brackets, may hold anything: count from behind it. */
    rest = sw_slice_from(text, (size_t)(sw_slice_rfind(text, ')') + 2));
    for (int i = 3; i < 22 && rest.p; i++)
        (void)sw_slice_cut(&rest, ' ');
    if (!sw_slice_to_u64(sw_slice_cut(&rest, ' '), UINT64_MAX - 1, &n))
        n = UINT64_MAX;
    sw_slice_free(&text);
    return n;
}

/* The next process of a proc directory; NULL: there is none. */
static const char *next_pid(DIR *d)
{
    const char *name;

    while ((name = sw_dir_next(d)) != NULL && !isdigit((unsigned char)name[0]))
        continue;
    return name;
}

/* ---- whose namespace it is ---- */

struct look {
    const struct sw_ip *ips;
    size_t n;
    bool found;
};

/* Inside the namespace. */
static int look_for_ips(void *arg)
{
    struct look *l = arg;
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) != 0)
        return SW_ESYS;
    for (struct ifaddrs *i = all; i && !l->found; i = i->ifa_next) {
        struct sw_ip ip = sw_addr_from_ifaddr(i->ifa_addr).ip;

        for (size_t k = 0; ip.family && k < l->n; k++)
            l->found = l->found || sw_ip_eq(&ip, &l->ips[k]);
    }
    freeifaddrs(all);
    return SW_OK;
}

static bool is_own(const char *path)
{
    struct stat theirs;
    struct stat ours;

    return stat(path, &theirs) != 0 || stat("/proc/self/ns/net", &ours) != 0 ||
           (theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino);
}

bool sw_pod_netns_has(int fd, const struct sw_ip *ips, size_t n_ips)
{
    struct look l = {.ips = ips, .n = n_ips};

    return n_ips == 0 || (sw_netns_run(fd, look_for_ips, &l, NULL) == SW_OK && l.found);
}

static int open_pod(const char *proc, const char *pid, const struct sw_ip *ips, size_t n_ips)
{
    char path[PATH_LEN];
    int fd = -1;

    (void)snprintf(path, sizeof(path), "%s/%s/ns/net", proc, pid);
    if (is_own(path) || sw_netns_open(path, &fd, NULL) != SW_OK)
        return -1;
    if (!sw_pod_netns_has(fd, ips, n_ips)) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

int sw_pod_netns_find(const char *proc, struct sw_slice uid, const struct sw_ip *ips, size_t n_ips,
                      int *ret_fd, struct sw_err *err)
{
    SW_AUTO_DIR *d = opendir(proc);
    const char *pid;
    uint64_t oldest = UINT64_MAX;
    int best = -1;

    while ((pid = next_pid(d)) != NULL) {
        uint64_t started;
        int fd;

        if (!is_of_pod(proc, pid, uid))
            continue;
        started = start_time(proc, pid);
        if (best >= 0 && started >= oldest)
            continue;
        fd = open_pod(proc, pid, ips, n_ips);
        if (fd < 0)
            continue;
        if (best >= 0)
            (void)close(best);
        best = fd;
        oldest = started;
    }
    if (best < 0)
        return sw_err_set(err, SW_ENOENT, "no process of the pod has a network namespace");
    *ret_fd = best;
    return SW_OK;
}

/* Namespaces by what stat says of them. */
struct seen {
    SW_VEC(struct stat) v;
};

/* True the first time. */
static bool note(struct seen *s, const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return false;
    SW_VEC_FOREACH (struct stat, it, &s->v) {
        if (it->st_dev == st.st_dev && it->st_ino == st.st_ino)
            return false;
    }
    sw_vec_push(&s->v, st);
    return true;
}

void sw_pod_netns_each(const char *proc, void (*fn)(int netns_fd, void *arg), void *arg)
{
    SW_AUTO_DIR *d = opendir(proc);
    struct seen seen = {0};
    char path[PATH_LEN];
    const char *pid;

    (void)snprintf(path, sizeof(path), "%s/1/ns/net", proc);
    (void)note(&seen, path);
    (void)note(&seen, "/proc/self/ns/net");
    while ((pid = next_pid(d)) != NULL) {
        char uid[SW_POD_UID_LEN + 1];
        int fd = -1;

        if (!uid_of(proc, pid, uid))
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s/ns/net", proc, pid);
        if (!note(&seen, path) || sw_netns_open(path, &fd, NULL) != SW_OK)
            continue;
        fn(fd, arg);
        (void)close(fd);
    }
    sw_vec_done(&seen.v);
}

unsigned sw_kubelet_uid(const char *proc)
{
    static const char *const names[] = {"kubelet",   "kubelite", "k3s-server",
                                        "k3s-agent", "k0s",      NULL};
    SW_AUTO_DIR *d = opendir(proc);
    const char *pid;

    while ((pid = next_pid(d)) != NULL) {
        char path[PATH_LEN];
        struct sw_slice comm = {0};
        struct stat st;
        bool found =
            read_of(proc, pid, "comm", &comm) && sw_word_in(sw_slice_trim_lines(comm), names);

        sw_slice_free(&comm);
        (void)snprintf(path, sizeof(path), "%s/%s/comm", proc, pid);
        if (found && stat(path, &st) == 0)
            return st.st_uid;
    }
    return 0;
}
