/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire status`: what the control plane has sent to its data planes, and what they
 * acknowledged. */
#include "cmd/status/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "base/utf8.h"
#include "cmd/api.h"
#include "cmd/cmd.h"
#include "cmd/status/cluster.h"
#include "cmd/status/devices.h"
#include "cmd/status/links.h"

struct settings {
    const char *kubeconfig;
    const char *ns;
    bool links;
    bool json;
    uint64_t timeout_ns;
};

#define AT(field) .offset = offsetof(struct settings, field)

static const struct sw_opt table[] = {
    {"kubeconfig", NULL, SW_OPT_STR, AT(kubeconfig), .arg = "FILE",
     .help = "How to reach the API [$KUBECONFIG, the pod's service account, ~/.kube/config]."},
    {"namespace", NULL, SW_OPT_STR, AT(ns), .def = "spanwire-system", .arg = "NS",
     .help = "Where the pods of 'spanwire control' are, if the API server is not ours."},
    {"json", NULL, SW_OPT_BOOL, AT(json), .def = "false", .arg = "BOOL",
     .help = "Print everything the control plane says, as JSON."},
    {"timeout", NULL, SW_OPT_DURATION, AT(timeout_ns), .def = "10s", .min = 100, .max = 600000,
     .help = "How long to wait."},
};

const struct sw_opts_cmd sw_status_options = {
    .name = "status",
    .usage = "[links] [options]",
    .summary =
        "Lists the data planes connected to the control plane: what each has accepted (ACK)\n"
        "and refused (NACK) of its configuration; on another cluster its Gateways, too, and the\n"
        "pods of the control plane are asked through the API server. Then the devices, and how\n"
        "gateways reach them. Exit status 2 when a data plane lags or refuses, none is connected,\n"
        "or a Gateway is not programmed. With 'links' peers, imports and exports of links between\n"
        "clusters; exit status 2 when one of their conditions is not True.",
    SW_OPTS_OF(table),
    .max_args = 1,
};

static const struct sw_kube_gvr connectors = {"networking.datumapis.com", "v1alpha1", "connectors",
                                              "Connector", true};

static struct sw_slice text(const struct sw_json *o, const char *name)
{
    return sw_json_str(sw_json_get(o, sw_slice_str(name)));
}

static int64_t number(const struct sw_json *o, const char *name)
{
    int64_t n = 0;

    return sw_json_i64(sw_json_get(o, sw_slice_str(name)), &n) ? n : 0;
}

/* "Listener" of ".../envoy.config.listener.v3.Listener". */
static struct sw_slice short_type(struct sw_slice url)
{
    size_t at = url.n;

    while (at && url.p[at - 1] != '.')
        at--;
    return sw_slice_from(url, at);
}

/*
 * On one line. Envoy may quote the whole resource in the middle of a refusal; what it is about
 * stands at the beginning, and what is wrong at the end.
 */
static void print_reason(struct sw_slice s)
{
    enum { HEAD = 100, TAIL = 300 };
    SW_ARENA_AUTO a = {0};
    char *shown = sw_arena_dup(&a, s);
    bool space = true;

    sw_utf8_mask(shown, s.n, ' ');
    for (size_t i = 0; i < s.n; i++) {
        bool blank = shown[i] == ' ';

        if (s.n > HEAD + TAIL && i == HEAD) {
            (void)fputs(" ... ", stdout);
            i = s.n - TAIL - 1;
            space = true;
            continue;
        }
        if (!blank || !space)
            (void)putchar(shown[i]);
        space = blank;
    }
    (void)putchar('\n');
}

static bool is_programmed(const struct sw_json *g)
{
    return sw_slice_eq_str(text(g, "programmed"), "True");
}

/* A data plane that has, and accepted, all it was sent of a type. */
static bool is_settled(const struct sw_json *c)
{
    return sw_slice_eq(text(c, "sent"), text(c, "acked")) && !text(c, "nack").n;
}

static bool any_error(const struct sw_json *list)
{
    for (size_t i = 0; i < sw_json_len(list); i++) {
        if (text(sw_json_at(list, i), "error").n)
            return true;
    }
    return false;
}

/*
 * Data planes that could not be asked about are judged by the Gateways alone, which are not
 * programmed without one.
 */
static bool all_settled(const struct sw_json *o)
{
    const struct sw_json *clients = sw_json_get(o, SW_SLICE_LIT("clients"));
    const struct sw_json *gateways = sw_json_find(o, "gateways");
    size_t n = sw_json_len(clients);
    bool ok = n > 0 || (sw_json_len(gateways) &&
                        (text(o, "error").n || any_error(sw_json_find(o, "replicas"))));

    for (size_t i = 0; i < n; i++)
        ok &= is_settled(sw_json_at(clients, i));
    SW_JSON_ITEMS (it, gateways)
        ok &= is_programmed(it);
    return ok;
}

/* "12s", "3m", "5h", "2d": how long ago. */
static void print_age(int64_t s)
{
    static const struct {
        int64_t seconds;
        char unit;
    } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    size_t i = 0;

    while (i + 1 < SW_ARRAY_LEN(units) && s < 2 * units[i].seconds)
        i++;
    printf("%5" PRId64 "%c  ", s / units[i].seconds, units[i].unit);
}

static void print_client(const struct sw_json *c)
{
    struct sw_slice nack = text(c, "nack");
    struct sw_slice acked = text(c, "acked");

    sw_cmd_print_cell(text(c, "node"), 28);
    sw_cmd_print_cell(text(c, "address"), 22);
    sw_cmd_print_cell(short_type(text(c, "type")), 22);
    sw_cmd_print_cell(sw_slice_str(nack.n ? "REFUSED" : is_settled(c) ? "ACKED" : "WAITING"), 8);
    sw_cmd_print_cell(sw_slice_head(acked, sw_min(acked.n, 10)), 10);
    printf("%6" PRId64 " %6" PRId64 " ", number(c, "acks"), number(c, "nacks"));
    print_age(number(c, "pushedSeconds"));
    print_reason(nack);
}

static void print_table(const struct sw_json *clients)
{
    size_t n = sw_json_len(clients);

    if (n == 0)
        printf("No data plane is connected.\n");
    else
        printf("%-28s %-22s %-22s %-8s %-10s %6s %6s %6s  %s\n", "NODE", "ADDRESS", "TYPE", "STATE",
               "VERSION", "ACKS", "NACKS", "PUSHED", "LAST REFUSAL");
    for (size_t i = 0; i < n; i++)
        print_client(sw_json_at(clients, i));
}

static void print_gateway(const struct sw_json *g)
{
    bool good = is_programmed(g);

    sw_cmd_print_cell(text(g, "namespace"), 20);
    sw_cmd_print_cell(text(g, "name"), 28);
    sw_cmd_print_cell(text(g, "address"), 28);
    sw_cmd_print_cell(sw_slice_str(good ? "yes" : "NO"), 10);
    sw_cmd_print_cell(good ? sw_slice("", 0) : text(g, "reason"), 20);
    print_reason(text(g, "message"));
}

/* What only another cluster's status has: Gateways, and replicas that did not answer. */
static void print_cluster(const struct sw_json *o)
{
    const struct sw_json *gateways = sw_json_find(o, "gateways");
    const struct sw_json *replicas = sw_json_find(o, "replicas");
    struct sw_slice err = text(o, "error");

    if (sw_json_len(gateways))
        printf("%-20s %-28s %-28s %-10s %-20s %s\n", "NAMESPACE", "GATEWAY", "ADDRESS",
               "PROGRAMMED", "REASON", "MESSAGE");
    SW_JSON_ITEMS (it, gateways)
        print_gateway(it);
    SW_JSON_ITEMS (r, replicas) {
        if (!text(r, "error").n)
            continue;
        (void)fputs("Control plane ", stdout);
        sw_cmd_print_cell(text(r, "name"), 0);
        (void)fputs("cannot be asked: ", stdout);
        print_reason(text(r, "error"));
    }
    if (err.n) {
        (void)fputs("Control planes cannot be found: ", stdout);
        print_reason(err);
    }
}

static int show(const struct settings *set, const struct sw_json *o)
{
    SW_BUF_AUTO out = {.max = 64 << 20};
    int rc;

    if (!set->json) {
        print_cluster(o);
        print_table(sw_json_get(o, SW_SLICE_LIT("clients")));
        sw_status_print_devices(sw_json_find(o, "devices"));
        return SW_OK;
    }
    rc = sw_json_write(&out, o, NULL);
    printf("%.*s\n", (int)sw_buf_len(&out), (const char *)sw_buf_data(&out));
    return rc;
}

/* An API without Connectors, or one that does not let us see them, has none to show. */
static void add_devices(struct sw_cmd_api *api, const struct settings *set, struct sw_json *status)
{
    struct sw_cmd_reply r;

    if (sw_cmd_api_do(api,
                      &(struct sw_kube_req){
                          .verb = SW_KUBE_LIST, .gvr = &connectors, .timeout_ns = set->timeout_ns},
                      &r) == SW_OK)
        sw_json_put(&api->arena, status, "devices", sw_status_devices(&api->arena, r.object));
}

/* That of our own API server, or what can be put together on another. */
static int ask_status(struct sw_cmd_api *api, const struct settings *set, struct sw_json **ret,
                      struct sw_err *err)
{
    struct sw_cmd_reply r;

    *ret = NULL;
    (void)sw_cmd_api_do(api,
                        &(struct sw_kube_req){.verb = SW_KUBE_GET,
                                              .path = "/debug/xds",
                                              .timeout_ns = set->timeout_ns},
                        &r);
    if (r.code == 404 || r.code == 403) { /* not ours, or not for us */
        *ret = sw_status_cluster(api, set->ns, set->timeout_ns, err);
        if (*ret)
            return SW_OK;
        (void)sw_err_prefix(err, "this API server has no status of data planes");
        return err->rc = r.rc;
    }
    if (r.rc != SW_OK)
        return sw_err_set(err, r.rc, "%.*s", SW_SLICE_ARG(r.message));
    *ret = r.object;
    return SW_OK;
}

static int ask(struct sw_cmd_api *api, const struct settings *set, bool *ret_settled,
               struct sw_err *err)
{
    struct sw_json *status;
    int rc;

    if (set->links)
        return sw_status_links(api, set->timeout_ns, set->json, ret_settled, err);
    rc = ask_status(api, set, &status, err);
    if (rc != SW_OK)
        return rc;
    add_devices(api, set, status);
    *ret_settled = all_settled(status);
    return show(set, status);
}

static int run(const struct settings *set, bool *ret_settled, struct sw_err *err)
{
    struct sw_cmd_api api = {0};
    int rc = sw_cmd_api_open(&api, set->kubeconfig, NULL, err);

    if (rc == SW_OK)
        rc = ask(&api, set, ret_settled, err);
    sw_cmd_api_close(&api);
    return rc;
}

int sw_cmd_status(int argc, char **argv)
{
    SW_ARENA_AUTO arena = {0};
    struct settings set = {0};
    struct sw_err err = {0};
    struct sw_opts_rest rest = {0};
    bool settled = false;
    int rc =
        sw_opts_parse(&sw_status_options, &set, &arena, (struct sw_args){argc, argv}, &rest, &err);

    if (rc == SW_EOF)
        return sw_cmd_help(&sw_status_options);
    set.links = rest.n_args && strcmp(rest.args[0], "links") == 0;
    if (rc == SW_OK && rest.n_args && !set.links)
        rc = sw_err_set(&err, SW_EINVAL, "status: '%.60s' is not 'links'", rest.args[0]);
    if (rc == SW_OK)
        rc = run(&set, &settled, &err);
    if (rc != SW_OK)
        return sw_cmd_fail(&err);
    return settled ? 0 : 2;
}
