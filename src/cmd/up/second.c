/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second site of `spanwire up --demo`: a control plane and a data plane of its own on loopback,
 * one fabric with the first site, and a web app that it exports and the first site imports.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/time.h"
#include "cmd/control/link_site.h"
#include "cmd/up/demo.h"
#include "cmd/up/objects.h"
#include "cmd/up/page.h"
#include "cmd/up/second_objects.h"
#include "cmd/up/up_int.h"
#include "identity/fabric.h"
#include "tls/cert/ca.h"

/* Directories below the state's; the second site's control plane has the first of them. */
#define DIR    "second"
#define FABRIC "fabric"

/* The policies were written once: one that was deleted since stays deleted. */
#define ALLOWED DIR "/allowed"
/* The first site's policy, for those who want it back. */
#define POLICY DIR "/allow.json"

enum {
    /* Never leased, see control/linkport.c. */
    PLANES_FIRST = 15000,
    PLANES_LAST = 15099,
};

/* The sites are as old as their files. */
static const uint64_t ttl_s = UINT64_C(10) * 365 * 86400;

struct up_second {
    struct sw_demo_app *app;
    const char *hostname;
    struct sw_up_second_objects objects;
    struct sw_up_objects *here;
    struct sw_up_objects *there;
    struct sw_up_page *page;
};

/* ---- certificates ---- */

static bool has_all(struct up *u, const char *dir, const char *const *files, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (access(up_path(u, sw_arena_printf(u->arena, "%s/%s", dir, files[i])), F_OK) != 0)
            return false;
    }
    return true;
}

/* What an earlier start left unfinished was never used. */
static void remove_all(struct up *u, const char *dir, const char *const *files, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)unlink(up_path(u, sw_arena_printf(u->arena, "%s/%s", dir, files[i])));
}

static int issue(struct up *u)
{
    struct sw_ca *ca = sw_fabric_load(up_path(u, FABRIC), u->err);
    int rc = ca ? sw_fabric_issue(ca, up_path(u, DIR "/" FABRIC), SW_UP_SECOND, ttl_s, u->err)
                : u->err->rc;

    sw_ca_free(ca);
    return rc;
}

/* One authority; it stays with the first site. */
static int make_fabric(struct up *u)
{
    static const char *const files[] = {SW_FABRIC_CA, SW_FABRIC_CERT, SW_FABRIC_KEY,
                                        SW_FABRIC_CA_KEY};
    const size_t n = SW_ARRAY_LEN(files);
    bool old = has_all(u, FABRIC, files, n);
    int rc = SW_OK;

    if (!old) {
        remove_all(u, FABRIC, files, n);
        rc = sw_fabric_create(up_path(u, FABRIC), SW_UP_HOME, ttl_s, u->err);
    }
    if (rc == SW_OK && (!old || !has_all(u, DIR "/" FABRIC, files, n - 1))) {
        remove_all(u, DIR "/" FABRIC, files, n - 1);
        rc = issue(u);
    }
    return rc;
}

/* ---- set-up ---- */

static int check_import_port(const struct up *u)
{
    uint32_t first = u->set->import_port;
    uint32_t last = first + UP_IMPORT_PORTS - 1;

    if (first <= PLANES_LAST && last >= PLANES_FIRST)
        return sw_err_set(u->err, SW_EINVAL,
                          "--import-port %" PRIu32 ": ports %d to %d are the data planes' own",
                          first, PLANES_FIRST, PLANES_LAST);
    if (first < u->set->port_base + PORTS && last >= u->set->port_base)
        return sw_err_set(u->err, SW_EINVAL,
                          "--import-port %" PRIu32 " is among the ports from --port-base on",
                          first);
    return SW_OK;
}

static int make_objects(struct up *u)
{
    struct up_second *s = u->second;
    const struct sw_up_second_facts facts = {
        .here = up_local(u, PORT_LINK),
        .there = up_local(u, PORT_SECOND_LINK),
        .app = sw_demo_app_addr(s->app),
        .import_port = (uint16_t)u->set->import_port,
        .hostname = s->hostname,
        .policies = access(up_path(u, ALLOWED), F_OK) != 0,
    };
    int rc = sw_up_second_objects(u->arena, &facts, &s->objects, u->err);

    if (rc != SW_OK)
        return rc;
    return sw_file_write(up_path(u, POLICY), sw_json_text(u->arena, s->objects.policy, NULL), 0600,
                         true, u->err);
}

int up_second_prepare(struct up *u)
{
    struct up_second *s = u->second = SW_NEW(struct up_second);
    int rc = check_import_port(u);

    s->hostname = sw_arena_printf(u->arena, SW_UP_SECOND ".%s", u->set->demo_hostname);
    if (rc == SW_OK)
        rc = sw_make_dirs(up_path(u, DIR), u->err);
    if (rc == SW_OK)
        rc = make_fabric(u);
    /* Here, so that no data plane starts before its files are there. */
    if (rc == SW_OK)
        rc = sw_control_link_site_make(up_path(u, "link-site"), u->err);
    if (rc == SW_OK)
        rc = sw_control_link_site_make(up_path(u, DIR "/link-site"), u->err);
    if (rc != SW_OK)
        return rc;
    s->app = sw_demo_app_new(u->loop, SW_DEMO_SITE, u->err);
    return s->app ? make_objects(u) : u->err->rc;
}

int up_second_check_ports(struct up *u)
{
    static const struct {
        uint32_t port;
        const char *what;
    } ports[] = {
        {PORT_LINK_CONTROL, "the link's control plane listens"},
        {PORT_LINK, "the link listens"},
        {PORT_LINK_ADMIN, "the link's admin pages are"},
        {PORT_LINK_STATS, "the link's metrics are"},
        {PORT_LINK_READY, "the link's readiness is"},
        {PORT_SECOND_API, "the second site's API is"},
        {PORT_SECOND_CONTROL, "the second site's control plane of links listens"},
        {PORT_SECOND_LINK, "the second site's link listens"},
        {PORT_SECOND_ADMIN, "the second site's admin pages are"},
        {PORT_SECOND_STATS, "the second site's metrics are"},
        {PORT_SECOND_READY, "the second site's readiness is"},
    };
    struct sw_addr import = up_local(u, 0);
    int rc = SW_OK;

    for (size_t i = 0; rc == SW_OK && i < SW_ARRAY_LEN(ports); i++) {
        struct sw_addr at = up_local(u, ports[i].port);

        rc = up_check_port(u, &at, ports[i].what, "--port-base");
    }
    import.port = (uint16_t)u->set->import_port;
    return rc == SW_OK ? up_check_port(u, &import, "the demo's Import is", "--import-port") : rc;
}

/* ---- roles ---- */

/* Objects of a site lead to the other site's link, and to nothing else of this machine. */
static void give_link(struct up *u, struct sw_supervised *r, uint32_t listen, const char *fabric,
                      uint32_t other)
{
    up_give(r, "--link-listen", up_local_text(u, listen));
    up_give(r, "--link-fabric", up_path(u, fabric));
    up_give(r, "--link-known-peers-only", NULL);
    up_give(r, "--upstream-allow", up_local_text(u, other));
}

void up_second_give_control(struct up *u, struct sw_supervised *r)
{
    give_link(u, r, PORT_LINK_CONTROL, FABRIC, PORT_SECOND_LINK);
    up_give(r, "--link-address", "127.0.0.1");
    up_give(r, "--link-ports", up_import_ports(u));
}

static struct sw_supervised *add_link(struct up *u, const char *name, uint32_t control,
                                      uint32_t admin)
{
    struct sw_supervised *r = up_add(u, "link");

    r->name = name;
    r->ready = up_local(u, admin + 2);
    r->ready_path = "/healthz/ready";
    up_give(r, "--control", up_local_text(u, control));
    up_give(r, "--import-address", "127.0.0.1");
    up_give(r, "--admin-addr", up_local_text(u, admin));
    up_give(r, "--stats-addr", up_local_text(u, admin + 1));
    up_give(r, "--ready-addr", up_local_text(u, admin + 2));
    up_give(r, "--workers", "1");
    up_give(r, "--drain-time", "500ms"); /* the gateway keeps connections for reuse */
    up_give(r, "--log-level", u->set->log_level);
    return r;
}

static void add_control(struct up *u, const char *app)
{
    struct sw_supervised *r = up_add(u, "control");

    r->name = SW_UP_SECOND "-control";
    r->ready = up_local(u, PORT_SECOND_API);
    r->ready_path = "/readyz";
    r->ready_ca = up_path(u, DIR "/pki/root.crt");
    up_give(r, "--data", up_path(u, DIR));
    up_give(r, "--listen", up_local_text(u, PORT_SECOND_API));
    up_give(r, "--gateway=false", NULL);
    up_give(r, "--connector=false", NULL);
    up_give(r, "--mesh=false", NULL);
    give_link(u, r, PORT_SECOND_CONTROL, DIR "/" FABRIC, PORT_LINK);
    up_give(r, "--link-export-host", "127.0.0.1");
    up_give(r, "--upstream-allow", app);
    up_give(r, "--log-level", u->set->log_level);
}

void up_second_add_roles(struct up *u)
{
    struct sw_addr at = sw_demo_app_addr(u->second->app);
    const char *app = up_addr_text(u, &at);
    struct sw_supervised *r;

    r = add_link(u, "link", PORT_LINK_CONTROL, PORT_LINK_ADMIN);
    up_give(r, "--site", up_path(u, "link-site"));
    up_give(r, "--listen", up_local_text(u, PORT_LINK));
    up_give(r, "--upstream-allow", up_local_text(u, PORT_SECOND_LINK));
    add_control(u, app);
    r = add_link(u, SW_UP_SECOND "-link", PORT_SECOND_CONTROL, PORT_SECOND_ADMIN);
    up_give(r, "--site", up_path(u, DIR "/link-site"));
    up_give(r, "--listen", up_local_text(u, PORT_SECOND_LINK));
    up_give(r, "--upstream-allow", app);
}

/* ---- output ---- */

static void print_second(struct up *u, bool answered)
{
    const char *kubeconfig = up_shell_word(u, up_path(u, DIR "/admin.kubeconfig"));

    if (answered)
        printf("\nA second site exports a web app to this one (%.2f s):\n\n  http://%s:%" PRIu32
               "/\n\n",
               (double)(sw_now_ns() - u->begin_ns) / 1e9, u->second->hostname,
               80 + u->set->port_offset);
    else
        printf("\nThe web app of the second site does not answer; its AccessPolicy was deleted, or "
               "%s/log/link.log says why.\n\n",
               u->set->data);
    printf("  spanwire status links                # the second site, seen from this one\n");
    printf("  spanwire status links --kubeconfig %s  # and the other way round\n", kubeconfig);
    printf("  kubectl delete accesspolicy " SW_UP_SECOND
           "    # denies it, and closes open connections\n");
    printf("  kubectl apply -f %s  # allows it again\n", up_shell_word(u, up_path(u, POLICY)));
    (void)fflush(stdout);
}

static void on_page(void *arg, bool answered)
{
    print_second(arg, answered);
}

/* ---- life ---- */

static void on_here(void *arg)
{
    struct up *u = arg;
    struct up_second *s = u->second;
    struct sw_err err = {0};

    if (sw_file_write(up_path(u, ALLOWED), SW_SLICE_LIT(""), 0600, true, &err) != SW_OK)
        (void)fprintf(stderr, "%s; the next start writes the demo's policies again\n", err.msg);
    s->page = sw_up_page_new(u->loop, (uint16_t)(80 + u->set->port_offset),
                             sw_slice_str(s->hostname), on_page, u, &err);
    if (!s->page)
        print_second(u, false);
}

static void on_there(void *arg)
{
    struct up *u = arg;
    const struct up_second *s = u->second;
    const struct sw_up_objects_opts o = {.site = SW_UP_HOME,
                                         .kubeconfig = u->kubeconfig,
                                         .list = s->objects.here,
                                         .n = s->objects.n_here,
                                         .done = on_here,
                                         .arg = u};

    u->second->here = sw_up_objects_new(u->loop, &o);
}

/* The second site first: it answers only peers that it knows, and the first heartbeat counts. */
void up_second_link(struct up *u)
{
    const struct up_second *s = u->second;
    const struct sw_up_objects_opts o = {.site = SW_UP_SECOND,
                                         .kubeconfig = up_path(u, DIR "/admin.kubeconfig"),
                                         .list = s->objects.there,
                                         .n = s->objects.n_there,
                                         .done = on_there,
                                         .arg = u};

    u->second->there = sw_up_objects_new(u->loop, &o);
}

void up_second_done(struct up *u)
{
    struct up_second *s = u->second;

    if (!s)
        return;
    sw_up_page_free(s->page);
    sw_up_objects_free(s->here);
    sw_up_objects_free(s->there);
    sw_demo_app_free(s->app);
    sw_free(s);
    u->second = NULL;
}
