/* SPDX-License-Identifier: Apache-2.0 */
/* The node ports of a Service: kept, given, refused. */
#include "kube/builtin/service_int.h"

static bool port_in(const struct sw_json *ports, int64_t node_port)
{
    SW_JSON_ITEMS (item, ports) {
        if (sw_field_int(item, "nodePort") == node_port)
            return true;
    }
    return false;
}

void svc_carry_node_ports(struct svc_settle *s)
{
    const struct sw_json *ports = sw_json_find(s->spec, "ports");
    const struct sw_json *old = sw_json_find(s->was, "ports");

    SW_JSON_ITEMS (p, ports) {
        int64_t known = 0;

        if (sw_field_int(p, "nodePort"))
            continue;
        SW_JSON_ITEMS (item, old) {
            if (sw_slice_eq(sw_field_text(item, "name"), sw_field_text(p, "name")))
                known = sw_field_int(item, "nodePort");
        }
        if (known && !port_in(ports, known))
            sw_json_put(s->a, p, "nodePort", sw_json_new_i64(s->a, known));
    }
}

static bool is_mine(const struct svc_settle *s, int64_t port)
{
    size_t n = (size_t)(port - SW_SERVICE_PORT_MIN);

    return s->mine[n / 8] & (1u << (n % 8));
}

static void make_mine(struct svc_settle *s, int64_t port)
{
    size_t n = (size_t)(port - SW_SERVICE_PORT_MIN);

    s->mine[n / 8] = (uint8_t)(s->mine[n / 8] | (1u << (n % 8)));
}

/* NULL, or why the port cannot be had. */
static const char *take_port(struct svc_settle *s, int64_t port)
{
    if (port < SW_SERVICE_PORT_MIN || port > SW_SERVICE_PORT_MAX)
        return "provided port is not in the valid range. The range of valid ports is 30000-32767";
    if (is_mine(s, port) || s->pool->port_taken(s->pool->arg, (uint16_t)port))
        return "provided port is already allocated";
    make_mine(s, port);
    return NULL;
}

/* 0 when all are gone. */
static int64_t next_port(struct svc_settle *s)
{
    uint64_t start = s->pool->random(SERVICE_PORTS);

    for (uint64_t i = 0; i < SERVICE_PORTS; i++) {
        int64_t port = SW_SERVICE_PORT_MIN + (int64_t)((start + i) % SERVICE_PORTS);

        if (!take_port(s, port))
            return port;
    }
    return 0;
}

static int port_error(struct svc_settle *s, size_t i, int64_t port, const char *why)
{
    struct sw_at ports = svc_at(s, "spec.ports");

    sw_ferr_invalid(s->e, &SW_IN(SW_ITEM(&ports, i), "nodePort")->path, sw_json_new_i64(s->a, port),
                    why);
    return SW_EINVAL;
}

static int give_port(struct svc_settle *s, struct sw_json *p)
{
    int64_t port = next_port(s);

    if (!port) {
        s->why = "failed to allocate a nodePort: range is full";
        return SW_ELIMIT;
    }
    sw_json_put(s->a, p, "nodePort", sw_json_new_i64(s->a, port));
    return SW_OK;
}

static bool gives_ports(const struct sw_json *spec)
{
    return svc_type_is(spec, "NodePort") ||
           sw_json_true(sw_json_find(spec, "allocateLoadBalancerNodePorts"));
}

/* The node port of an earlier entry with the same port (up to 'before'), or a requested one. */
static int64_t shared_port(const struct sw_json *ports, size_t before, int64_t port)
{
    for (size_t i = 0; i < before && i < sw_json_len(ports); i++) {
        const struct sw_json *p = sw_json_at(ports, i);

        if (sw_field_int(p, "port") == port && sw_field_int(p, "nodePort"))
            return sw_field_int(p, "nodePort");
    }
    return 0;
}

int svc_take_new_ports(struct svc_settle *s)
{
    const struct sw_json *ports = sw_json_find(s->spec, "ports");

    for (size_t i = 0; i < sw_json_len(ports); i++) {
        struct sw_json *p = sw_json_at(ports, i);
        int64_t port = sw_field_int(p, "port");
        int64_t want = sw_field_int(p, "nodePort");
        int64_t have = shared_port(ports, i, port);
        const char *why;
        int rc = SW_OK;

        if (!want && !gives_ports(s->spec))
            continue;
        if (have && (!want || want == have)) {
            sw_json_put(s->a, p, "nodePort", sw_json_new_i64(s->a, have));
            continue;
        }
        if (!want)
            want = shared_port(ports, SIZE_MAX, port);
        if (want) {
            why = take_port(s, want);
            if (why)
                return port_error(s, i, want, why);
            sw_json_put(s->a, p, "nodePort", sw_json_new_i64(s->a, want));
        } else if ((rc = give_port(s, p)) != SW_OK) {
            return rc;
        }
    }
    return SW_OK;
}

int svc_take_changed_ports(struct svc_settle *s)
{
    const struct sw_json *ports = sw_json_find(s->spec, "ports");
    const struct sw_json *old = sw_json_find(s->was, "ports");

    for (size_t i = 0; i < sw_json_len(ports); i++) {
        struct sw_json *p = sw_json_at(ports, i);
        int64_t want = sw_field_int(p, "nodePort");
        const char *why;
        int rc;

        if (!want && !gives_ports(s->spec))
            continue;
        if (!want) {
            if ((rc = give_port(s, p)) != SW_OK)
                return rc;
            continue;
        }
        if (port_in(old, want) ||
            (want >= SW_SERVICE_PORT_MIN && want <= SW_SERVICE_PORT_MAX && is_mine(s, want)))
            continue;
        why = take_port(s, want);
        if (why)
            return port_error(s, i, want, why);
    }
    return SW_OK;
}

int svc_take_health_check(struct svc_settle *s)
{
    int64_t want = sw_field_int(s->spec, "healthCheckNodePort");
    const char *why;

    if (!svc_needs_health_check(s->spec) || svc_needs_health_check(s->was))
        return SW_OK;
    if (want) {
        why = take_port(s, want);
        if (why)
            s->why =
                sw_arena_printf(s->a, "failed to allocate requested HealthCheck NodePort %lld: %s",
                                (long long)want, why);
        return why ? SW_ELIMIT : SW_OK;
    }
    want = next_port(s);
    if (!want) {
        s->why = "failed to allocate a HealthCheck NodePort 0: range is full";
        return SW_ELIMIT;
    }
    sw_json_put(s->a, s->spec, "healthCheckNodePort", sw_json_new_i64(s->a, want));
    return SW_OK;
}

void svc_keep_own_ports(struct svc_settle *s)
{
    const struct sw_json *old = sw_json_find(s->was, "ports");

    for (size_t i = 0; i <= sw_json_len(old); i++) {
        int64_t port = i < sw_json_len(old) ? sw_field_int(sw_json_at(old, i), "nodePort")
                                            : sw_field_int(s->was, "healthCheckNodePort");

        if (port >= SW_SERVICE_PORT_MIN && port <= SW_SERVICE_PORT_MAX)
            make_mine(s, port);
    }
}

bool svc_no_new_node_port(const struct svc_settle *s)
{
    const struct sw_json *ports = sw_json_find(s->spec, "ports");

    SW_JSON_ITEMS (item, ports) {
        int64_t n = sw_field_int(item, "nodePort");

        if (n && !port_in(sw_json_find(s->was, "ports"), n))
            return false;
    }
    return true;
}
