/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials of the fabric's roles under DIR/roles: NAME.token, good for an hour and renewed at
 * half of that, and NAME.kubeconfig, which names it. Clients read the token anew when they connect.
 */
#include <stdio.h>
#include <string.h>

#include "apiserver/auth/auth.h"
#include "apiserver/boot/boot_int.h"
#include "base/base64.h"
#include "base/dirs.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "tls/cert/ca.h"

enum { TTL_S = 3600, ITEMS = 5 };

/* By the wall clock, which advances while the machine sleeps: so it is looked at often. */
static const uint64_t look_ns = 20 * SW_NS_PER_S;

struct item {
    const char *file; /* under DIR/roles */
    const char *ns;
    const char *account;
    uint64_t renew_s; /* wall time; 0: never issued */
};

struct api_accounts {
    struct sw_api *api;
    char *dir;
    char *device; /* NULL: none */
    struct item items[ITEMS];
    size_t n;
    struct sw_timer timer;
};

struct api_accounts *api_accounts_new(struct sw_api *api, const struct sw_api_config *c)
{
    static const char *const roles[] = {"control", "gateway", "relay", "sidecar"};
    struct api_accounts *n = SW_NEW(struct api_accounts);

    n->api = api;
    n->dir = sw_asprintf("%s/roles", c->data_dir);
    for (size_t i = 0; i < SW_ARRAY_LEN(roles); i++)
        n->items[n->n++] =
            (struct item){.file = roles[i],
                          .ns = API_SYSTEM_NS,
                          .account = sw_arena_printf(&api->arena, "spanwire-%s", roles[i])};
    if (c->device_account) {
        n->device = sw_strdup(c->device_account);
        n->items[n->n++] = (struct item){.file = n->device, .ns = "default", .account = n->device};
    }
    return n;
}

void api_accounts_free(struct api_accounts *n)
{
    if (!n)
        return;
    sw_timer_stop(n->api->loop, &n->timer);
    sw_free(n->dir);
    sw_free(n->device);
    sw_free(n);
}

const char *api_accounts_device(const struct sw_api *api)
{
    return api->accounts->device;
}

static int write_file(const struct api_accounts *n, const char *name, const char *ending,
                      struct sw_slice text, struct sw_err *err)
{
    SW_AUTO_FREE char *path = sw_asprintf("%s/%s.%s", n->dir, name, ending);

    return sw_file_write(path, text, 0600, true, err);
}

static int write_kubeconfig(const struct api_accounts *n, const struct item *it, struct sw_err *err)
{
    SW_BUF_AUTO out = {.max = 262144};
    int rc = sw_buf_printf(&out,
                           "apiVersion: v1\nkind: Config\nclusters:\n- name: spanwire\n  cluster:\n"
                           "    server: https://%s\n    certificate-authority-data: ",
                           n->api->advertise);

    if (rc == SW_OK)
        rc = sw_base64_append(&out, sw_ca_root_pem(n->api->ca));
    if (rc == SW_OK)
        rc = sw_buf_printf(&out,
                           "\nusers:\n- name: %s\n  user:\n    tokenFile: %s.token\n"
                           "contexts:\n- name: spanwire\n  context:\n    cluster: spanwire\n"
                           "    user: %s\n    namespace: %s\ncurrent-context: spanwire\n",
                           it->account, it->file, it->account,
                           strcmp(it->ns, API_SYSTEM_NS) == 0 ? "default" : it->ns);
    return rc == SW_OK ? write_file(n, it->file, "kubeconfig", sw_buf_slice(&out), err)
                       : sw_err_set(err, SW_ELIMIT, "kubeconfig does not fit");
}

static int issue(const struct api_accounts *n, const struct item *it, struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice token =
        api_token_for_account(n->api, &a, sw_slice_str(it->ns), sw_slice_str(it->account), TTL_S);
    int rc;

    if (!token.n)
        return sw_err_set(err, SW_ENOENT, "there is no such account, or it cannot be signed for");
    rc = write_file(n, it->file, "token", token, err);
    explicit_bzero((char *)(uintptr_t)token.p, token.n);
    return rc == SW_OK ? write_kubeconfig(n, it, err) : rc;
}

static void on_look(struct sw_timer *t);

static void look(struct api_accounts *n)
{
    uint64_t now = sw_wall_ns() / SW_NS_PER_S;

    for (size_t i = 0; i < n->n; i++) {
        struct item *it = &n->items[i];
        struct sw_err err = {0};

        /* A clock that was set back must not leave a token for later that ends before. */
        if (it->renew_s > now && it->renew_s - now <= TTL_S / 2)
            continue;
        if (issue(n, it, &err) == SW_OK)
            it->renew_s = now + TTL_S / 2;
        else
            sw_log_error("api", "cannot renew the credential %s/%s.token of account '%s': %s",
                         n->dir, it->file, it->account, err.msg);
    }
    sw_timer_start(n->api->loop, &n->timer, look_ns, on_look);
}

static void on_look(struct sw_timer *t)
{
    struct api_accounts *n = SW_CONTAINER_OF(t, struct api_accounts, timer);

    if (!n->api->phase.stopping && n->api->store)
        look(n);
}

void api_accounts_issue(struct sw_api *api)
{
    struct sw_err err = {0};

    if (!api->accounts || sw_timer_running(&api->accounts->timer))
        return;
    if (sw_make_dirs(api->accounts->dir, &err) != SW_OK)
        sw_log_error("api", "%s", err.msg);
    look(api->accounts);
}
