/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/agent/netns.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/vec.h"
#include "io/netns.h"

enum { CGROUP_MAX = 16 << 10, STAT_MAX = 4096, PATH_LEN = 512 };

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

/* False: of no pod. */
static bool uid_of(const char *proc, const char *pid, char ret[SW_POD_UID_LEN + 1])
{
    char path[PATH_LEN];
    struct sw_slice text = {0};
    bool yes;

    (void)snprintf(path, sizeof(path), "%s/%s/cgroup", proc, pid);
    if (sw_file_read(path, CGROUP_MAX, &text, NULL) != SW_OK)
        return false;
    yes = sw_pod_uid_of_cgroup(text, ret);
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
    char path[PATH_LEN];
    struct sw_slice text = {0};
    struct sw_slice rest;
    uint64_t n = UINT64_MAX;

    (void)snprintf(path, sizeof(path), "%s/%s/stat", proc, pid);
    if (sw_file_read(path, STAT_MAX, &text, NULL) != SW_OK)
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
    DIR *d = opendir(proc);
    struct dirent *e;
    uint64_t oldest = UINT64_MAX;
    int best = -1;

    while (d && (e = readdir(d)) != NULL) {
        uint64_t started;
        int fd;

        if (!isdigit((unsigned char)e->d_name[0]) || !is_of_pod(proc, e->d_name, uid))
            continue;
        started = start_time(proc, e->d_name);
        if (best >= 0 && started >= oldest)
            continue;
        fd = open_pod(proc, e->d_name, ips, n_ips);
        if (fd < 0)
            continue;
        if (best >= 0)
            (void)close(best);
        best = fd;
        oldest = started;
    }
    if (d)
        (void)closedir(d);
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
    DIR *d = opendir(proc);
    struct seen seen = {0};
    char path[PATH_LEN];
    const struct dirent *e;

    (void)snprintf(path, sizeof(path), "%s/1/ns/net", proc);
    (void)note(&seen, path);
    (void)note(&seen, "/proc/self/ns/net");
    while (d && (e = readdir(d)) != NULL) {
        char uid[SW_POD_UID_LEN + 1];
        int fd = -1;

        if (!isdigit((unsigned char)e->d_name[0]) || !uid_of(proc, e->d_name, uid))
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s/ns/net", proc, e->d_name);
        if (!note(&seen, path) || sw_netns_open(path, &fd, NULL) != SW_OK)
            continue;
        fn(fd, arg);
        (void)close(fd);
    }
    if (d)
        (void)closedir(d);
    sw_vec_done(&seen.v);
}

unsigned sw_kubelet_uid(const char *proc)
{
    static const char *const names[] = {"kubelet", "kubelite", "k3s-server", "k3s-agent", "k0s"};
    DIR *d = opendir(proc);
    struct dirent *e;
    unsigned uid = 0;
    bool found = false;

    while (d && !found && (e = readdir(d)) != NULL) {
        char path[PATH_LEN];
        struct sw_slice comm = {0};
        struct stat st;

        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s/comm", proc, e->d_name);
        if (sw_file_read(path, STAT_MAX, &comm, NULL) != SW_OK || comm.n == 0 ||
            stat(path, &st) != 0) {
            sw_slice_free(&comm);
            continue;
        }
        for (size_t i = 0; i < SW_ARRAY_LEN(names); i++)
            found = found || sw_slice_eq_str(sw_slice_head(comm, comm.n - 1), names[i]);
        uid = found ? st.st_uid : 0;
        sw_slice_free(&comm);
    }
    if (d)
        (void)closedir(d);
    return uid;
}
