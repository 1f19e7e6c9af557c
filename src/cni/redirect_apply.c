/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs nft and ip in the namespace. Routes first: without the marks they do nothing; then all
 * rules in one transaction.
 */
#include "cni/redirect.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cni/child.h"
#include "cni/redirect_int.h"
#include "io/netns.h"

enum { OUTPUT_MAX = 4096, ROUTES_MAX = 8 };

/* The first line of a tool's output, for a message. */
static struct sw_slice first_line(const struct sw_buf *said)
{
    struct sw_slice rest = sw_buf_slice(said);
    struct sw_slice l = sw_slice_cut(&rest, '\n');

    return sw_slice_head(l, 120);
}

static bool said(const struct sw_buf *out, const char *words)
{
    return memmem(sw_buf_slice(out).p, sw_buf_len(out), words, strlen(words)) != NULL;
}

int sw_redirect_run(int netns_fd, struct sw_slice script, struct sw_err *err)
{
    static const char *const argv[] = {"nft", "-f", "-", NULL};
    struct sw_child c = {.argv = argv, .input = script};
    SW_BUF_AUTO out = {.max = OUTPUT_MAX};
    int status;
    int rc = sw_child_run(netns_fd, &c, &out, &status, err);

    if (rc == SW_OK && status != 0)
        rc = sw_err_set(err, SW_ESYS, "nft refused the rules (status %d): %.*s", status,
                        SW_SLICE_ARG(first_line(&out)));
    return rc;
}

/* Runs one ip command; *ret_done is false when it found nothing to do. */
static int run_ip(int netns_fd, const struct sw_redirect_route *r, const char *verb, bool *ret_done,
                  struct sw_err *err)
{
    static const char *const ignored_failures[] = {
        "File exists",             /* add: it is there already */
        "No such file",            /* del: no such rule */
        "No such process",         /* del: no such route */
        "FIB table does not exist" /* del: not even the table */
    };
    const char *argv[SW_REDIRECT_ARGV];
    struct sw_child c = {.argv = argv};
    SW_BUF_AUTO out = {.max = OUTPUT_MAX};
    int status;
    int rc;

    sw_redirect_command(r, verb, argv);
    rc = sw_child_run(netns_fd, &c, &out, &status, err);
    if (rc != SW_OK)
        return rc;
    *ret_done = status == 0;
    for (size_t i = 0; status != 0 && i < SW_ARRAY_LEN(ignored_failures); i++) {
        if (said(&out, ignored_failures[i]))
            return SW_OK;
    }
    if (status != 0)
        return sw_err_set(err, SW_ESYS, "'%s %s %s %s' failed (status %d): %.*s", argv[0], argv[1],
                          argv[2], argv[3], status, SW_SLICE_ARG(first_line(&out)));
    return SW_OK;
}

struct ipv6 {
    bool present; /* the kernel has it */
    bool on_lo;   /* and the loopback interface uses it */
};

/* /proc/sys/net shows the namespace of whoever opens it. */
static int read_ipv6(void *arg)
{
    SW_AUTO_FD fd = open("/proc/sys/net/ipv6/conf/lo/disable_ipv6", O_RDONLY | O_CLOEXEC);
    struct ipv6 *v6 = arg;
    char c = '1';

    v6->present = fd >= 0;
    if (fd >= 0)
        (void)!read(fd, &c, 1);
    v6->on_lo = c == '0';
    return SW_OK;
}

static void undo_routes(int netns_fd, const bool *added)
{
    bool done;

    for (size_t i = sw_redirect_n_routes; i-- > 0;) {
        if (added[i])
            (void)!run_ip(netns_fd, &sw_redirect_routes[i], "del", &done, NULL);
    }
}

static int add_routes(int netns_fd, bool ipv6, bool *added, struct sw_err *err)
{
    int rc = SW_OK;

    for (size_t i = 0; i < sw_redirect_n_routes && rc == SW_OK; i++) {
        if (!sw_redirect_routes[i].ipv6 || ipv6)
            rc = run_ip(netns_fd, &sw_redirect_routes[i], "add", &added[i], err);
    }
    return rc;
}

/* Redirected by mistake, a host loses its own connections, the one of whoever repairs it first. */
static int refuse_host(int netns_fd, struct sw_err *err)
{
    static const char *const hosts[] = {"/proc/self/ns/net", "/proc/1/ns/net"};
    struct stat pod;

    if (fstat(netns_fd, &pod) != 0)
        return sw_err_sys(err, errno, "cannot look at the namespace");
    for (size_t i = 0; i < SW_ARRAY_LEN(hosts); i++) {
        struct stat host;

        if (stat(hosts[i], &host) == 0 && host.st_dev == pod.st_dev && host.st_ino == pod.st_ino)
            return sw_err_set(err, SW_EINVAL,
                              "this is the host's own network namespace ('%s'), not a pod's",
                              hosts[i]);
    }
    return SW_OK;
}

int sw_redirect_verify(int netns_fd, struct sw_err *err)
{
    static const char *const argv[] = {"nft", "list", "tables", "inet", NULL};
    struct sw_child c = {.argv = argv};
    SW_BUF_AUTO out = {.max = 16 * OUTPUT_MAX};
    int status;
    int rc = sw_child_run(netns_fd, &c, &out, &status, err);

    if (rc != SW_OK)
        return rc;
    if (status != 0)
        return sw_err_set(err, SW_ESYS, "nft failed (status %d): %.*s", status,
                          SW_SLICE_ARG(first_line(&out)));
    if (!said(&out, "table inet istio-ambient-nat") ||
        !said(&out, "table inet istio-ambient-mangle"))
        return sw_err_set(err, SW_ENOENT, "the redirection rules are missing");
    return SW_OK;
}

int sw_redirect_apply(int netns_fd, const struct sw_redirect *r, struct sw_err *err)
{
    SW_BUF_AUTO rules = {.max = SW_REDIRECT_TEXT_MAX};
    bool added[ROUTES_MAX] = {false};
    struct ipv6 v6 = {0};
    int rc = r->whole_machine ? SW_OK : refuse_host(netns_fd, err);

    if (rc == SW_OK)
        rc = sw_redirect_check(r, err);
    if (rc == SW_OK)
        rc = sw_redirect_ruleset(r, &rules);
    if (rc == SW_OK)
        rc = sw_netns_run(netns_fd, read_ipv6, &v6, err);
    if (rc == SW_OK)
        rc = add_routes(netns_fd, r->ipv6 && v6.on_lo, added, err);
    if (rc == SW_OK)
        rc = sw_redirect_run(netns_fd, sw_buf_slice(&rules), err);
    if (rc != SW_OK)
        undo_routes(netns_fd, added);
    return rc;
}

int sw_redirect_remove(int netns_fd, struct sw_err *err)
{
    SW_BUF_AUTO rules = {.max = SW_REDIRECT_TEXT_MAX};
    struct ipv6 v6 = {0};
    bool done;
    int rc = sw_redirect_removal(&rules);

    /* Rules first: as long as marks are set, the routes are needed. */
    if (rc == SW_OK)
        rc = sw_redirect_run(netns_fd, sw_buf_slice(&rules), err);
    if (rc == SW_OK)
        rc = sw_netns_run(netns_fd, read_ipv6, &v6, err);
    for (size_t i = sw_redirect_n_routes; rc == SW_OK && i-- > 0;) {
        if (!sw_redirect_routes[i].ipv6 || v6.present)
            rc = run_ip(netns_fd, &sw_redirect_routes[i], "del", &done, err);
    }
    return rc;
}
