/* SPDX-License-Identifier: Apache-2.0 */
/* The roles that `spanwire up` runs, with their command lines. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "cmd/up/demo.h"
#include "cmd/up/up_int.h"

const char *up_path(struct up *u, const char *name)
{
    return sw_arena_printf(u->arena, "%s/%s", u->data, name);
}

struct sw_addr up_local(const struct up *u, uint32_t port)
{
    return (struct sw_addr){.ip = {.family = 4, .b = {127, 0, 0, 1}},
                            .port = (uint16_t)(u->set->port_base + port)};
}

const char *up_local_text(struct up *u, uint32_t port)
{
    return sw_arena_printf(u->arena, "127.0.0.1:%" PRIu32, u->set->port_base + port);
}

const char *up_addr_text(struct up *u, const struct sw_addr *a)
{
    char text[SW_ADDR_TEXT];

    return sw_arena_printf(u->arena, "%s", sw_addr_text(a, text));
}

const char *up_import_ports(struct up *u)
{
    return sw_arena_printf(u->arena, "%" PRIu32 "-%" PRIu32, u->set->import_port,
                           u->set->import_port + UP_IMPORT_PORTS - 1);
}

void up_give(struct sw_supervised *r, const char *name, const char *value)
{
    size_t n = 0;

    while (r->argv[n])
        n++;
    assert(n + 2 < SW_SUPERVISED_ARGS);
    r->argv[n] = name;
    r->argv[n + 1] = value;
}

struct sw_supervised *up_add(struct up *u, const char *name)
{
    struct sw_supervised *r = &u->roles[u->n_roles++];

    r->name = name;
    r->argv[0] = "spanwire";
    r->argv[1] = name;
    up_give(r, "--log-format", sw_log_formats[u->set->log_format]);
    if (strcmp(name, "control") != 0) /* whose pages are the API's */
        up_give(r, "--admin-token-file", up_path(u, "run/admin.token"));
    return r;
}

/* Of the fabric itself: no Gateway may listen there. */
static const char *reserved_ports(struct up *u)
{
    const struct up_settings *s = u->set;
    const char *list = sw_arena_printf(u->arena, "%u,%u,%" PRIu32 "-%" PRIu32, s->listen.port,
                                       s->relay.port, s->port_base, s->port_base + PORTS - 1);

    return s->demo ? sw_arena_printf(u->arena, "%s,%s", list, up_import_ports(u)) : list;
}

void up_add_control(struct up *u)
{
    struct sw_supervised *r = up_add(u, "control");

    r->ready = u->set->listen;
    r->ready_path = "/readyz";
    r->ready_ca = up_path(u, "pki/root.crt");
    up_give(r, "--data", u->data);
    up_give(r, "--listen", up_addr_text(u, &u->set->listen));
    up_give(r, "--xds-listen", up_local_text(u, PORT_XDS));
    up_give(r, "--gateway-addresses", u->set->address);
    up_give(r, "--gateway-port-offset", sw_arena_printf(u->arena, "%" PRIu32, u->set->port_offset));
    up_give(r, "--gateway-reserved-ports", reserved_ports(u));
    up_give(r, "--connect-proxy", up_path(u, "run/sidecar.sock"));
    up_give(r, "--target-domain", u->set->target_domain);
    if (u->set->device_ports[0])
        up_give(r, "--device-ports", u->set->device_ports);
    if (u->set->cert_domain)
        up_give(r, "--certificate-domain", u->set->cert_domain);
    up_give(r, "--relay-url", u->relay_url);
    up_give(r, "--log-level", u->set->log_level);
    up_give(r, "--loopback-endpoints", NULL);
    if (u->set->demo) {
        up_give(r, "--device-account", DEMO);
        up_second_give_control(u, r);
    }
    if (u->set->access_log)
        up_give(r, "--gateway-access-log", NULL);
}

void up_add_relay(struct up *u)
{
    struct sw_supervised *r = up_add(u, "relay");

    r->ready = u->set->relay;
    r->ready_path = "/healthz";
    up_give(r, "--listen", up_addr_text(u, &u->set->relay));
    up_give(r, "--kubeconfig", up_path(u, "roles/relay.kubeconfig"));
    up_give(r, "--admin-addr", up_local_text(u, PORT_RELAY_ADMIN));
    up_give(r, "--stats-addr", up_local_text(u, PORT_RELAY_STATS));
    up_give(r, "--ready-addr", up_local_text(u, PORT_RELAY_READY));
    up_give(r, "--log-level", u->set->log_level);
}

/*
 * Backends are on this machine, as devices are: objects may name loopback addresses. The ports of
 * the fabric itself they may not.
 */
static void give_upstreams(struct up *u, struct sw_supervised *r)
{
    static const char *const nets[] = {"127.0.0.0/8", "[::1]"};
    const struct up_settings *s = u->set;
    const char *ports[] = {
        sw_arena_printf(u->arena, "%" PRIu32 "-%" PRIu32, s->port_base, s->port_base + PORTS - 1),
        sw_arena_printf(u->arena, "%u", s->listen.port),
        sw_arena_printf(u->arena, "%u", s->relay.port),
        s->demo ? up_import_ports(u) : NULL, /* whoever asks there is the gateway to the link */
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(nets); i++) {
        up_give(r, "--upstream-allow", nets[i]);
        for (size_t k = 0; k < SW_ARRAY_LEN(ports) && ports[k]; k++)
            up_give(r, "--upstream-deny", sw_arena_printf(u->arena, "%s:%s", nets[i], ports[k]));
    }
}

void up_add_sidecar(struct up *u)
{
    struct sw_supervised *r = up_add(u, "sidecar");

    r->ready = up_local(u, PORT_SIDECAR_READY);
    r->ready_path = "/healthz/ready";
    up_give(r, "--listen", up_path(u, "run/sidecar.sock"));
    up_give(r, "--key-file", up_path(u, "sidecar.key"));
    up_give(r, "--kubeconfig", up_path(u, "roles/sidecar.kubeconfig"));
    up_give(r, "--relay", u->relay_url);
    up_give(r, "--admin-addr", up_local_text(u, PORT_SIDECAR_ADMIN));
    up_give(r, "--stats-addr", up_local_text(u, PORT_SIDECAR_STATS));
    up_give(r, "--ready-addr", up_local_text(u, PORT_SIDECAR_READY));
    up_give(r, "--drain-time", "2s");
    up_give(r, "--log-level", u->set->log_level);
    give_upstreams(u, r);
    up_give(r, "--upstream-allow", "own"); /* devices of this machine name all of its addresses */
}

void up_add_gateway(struct up *u)
{
    struct sw_supervised *r = up_add(u, "gateway");

    r->ready = up_local(u, PORT_READY);
    r->ready_path = "/healthz/ready";
    up_give(r, "--xds-addr", up_local_text(u, PORT_XDS));
    up_give(r, "--xds-ca", up_path(u, "pki/root.crt"));
    up_give(r, "--xds-token-file", up_path(u, "roles/gateway.token"));
    up_give(r, "--admin-addr", up_local_text(u, PORT_ADMIN));
    up_give(r, "--stats-addr", up_local_text(u, PORT_STATS));
    up_give(r, "--ready-addr", up_local_text(u, PORT_READY));
    up_give(r, "--log-level", u->set->log_level);
    give_upstreams(u, r);
    up_give(r, "--drain-time", "2s");
}

int up_add_demo(struct up *u)
{
    struct sw_supervised *r = up_add(u, "expose");
    struct sw_addr at;

    u->app = sw_demo_app_new(u->loop, SW_DEMO_DEVICE, u->err);
    if (!u->app)
        return u->err->rc;
    at = sw_demo_app_addr(u->app);
    up_give(r, sw_arena_printf(u->arena, "http://%s", up_addr_text(u, &at)), NULL);
    up_give(r, "--hostname", u->set->demo_hostname);
    up_give(r, "--name", DEMO);
    up_give(r, "--data", up_path(u, "demo"));
    up_give(r, "--kubeconfig", up_path(u, "roles/" DEMO ".kubeconfig"));
    up_give(r, "--relay", u->relay_url);
    up_give(r, "--admin-addr", up_local_text(u, PORT_EXPOSE_ADMIN));
    return SW_OK;
}
