/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/read/ports.h"

#include <proto/workload.pb-c.h>

#include "control/objects.h"

enum { NAME_MAX_LEN = 255 };

static const struct {
    const char *name;
    uint8_t app;
} protocols[] = {
    {"http", SW__MESH_PORT__APP_PROTOCOL__HTTP11}, {"http2", SW__MESH_PORT__APP_PROTOCOL__HTTP2},
    {"grpc", SW__MESH_PORT__APP_PROTOCOL__GRPC},   {"tls", SW__MESH_PORT__APP_PROTOCOL__TLS},
    {"https", SW__MESH_PORT__APP_PROTOCOL__TLS},   {"tcp", SW__MESH_PORT__APP_PROTOCOL__TCP},
};

/* Names that are known, and that no AppProtocol stands for. */
static const char *const others[] = {"udp",   "grpc-web", "http_proxy", "mongo",
                                     "redis", "mysql",    "hbone",      "double-hbone"};

/* -1: not the name of a protocol. */
static int find_protocol(struct sw_slice name)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(protocols); i++) {
        if (sw_slice_ieq(name, sw_slice_str(protocols[i].name)))
            return protocols[i].app;
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(others); i++) {
        if (sw_slice_ieq(name, sw_slice_str(others[i])))
            return SW__MESH_PORT__APP_PROTOCOL__UNKNOWN;
    }
    return -1;
}

uint8_t mesh_protocol_app(struct sw_slice name)
{
    int app = find_protocol(name);

    return app < 0 ? SW__MESH_PORT__APP_PROTOCOL__UNKNOWN : (uint8_t)app;
}

/* Ports whose servers speak first: sniffing would wait for ever. */
static bool is_server_first(int64_t port)
{
    return port == 25 || port == 53 || port == 3306 || port == 27017;
}

uint8_t mesh_port_app(const struct sw_json *port)
{
    struct sw_slice name = js_or(port, "name", "");
    struct sw_slice app = js(port, "appProtocol");
    ptrdiff_t dash;
    int found;

    if (sw_slice_eq_str(js(port, "protocol"), "UDP"))
        return SW__MESH_PORT__APP_PROTOCOL__UNKNOWN;
    if (sw_slice_eq_str(app, "kubernetes.io/h2c"))
        return SW__MESH_PORT__APP_PROTOCOL__HTTP2;
    if (sw_slice_eq_str(app, "kubernetes.io/ws"))
        return SW__MESH_PORT__APP_PROTOCOL__HTTP11;
    if (sw_slice_eq_str(app, "kubernetes.io/wss"))
        return SW__MESH_PORT__APP_PROTOCOL__TLS;
    if (app.n)
        name = app;
    if (sw_slice_ieq(sw_slice_head(name, 8), SW_SLICE_LIT("grpc-web")))
        return SW__MESH_PORT__APP_PROTOCOL__UNKNOWN;
    dash = sw_slice_find(name, '-');
    found = find_protocol(dash < 0 ? name : sw_slice_head(name, (size_t)dash));
    if (found >= 0)
        return (uint8_t)found;
    return is_server_first(js_int(port, "port", UINT16_MAX, 0))
               ? SW__MESH_PORT__APP_PROTOCOL__TCP
               : SW__MESH_PORT__APP_PROTOCOL__UNKNOWN;
}

static void add(struct sw_buf *out, struct sw_slice name, int64_t number)
{
    const uint8_t head = (uint8_t)name.n;
    const uint8_t tail[2] = {(uint8_t)(number >> 8), (uint8_t)number};

    if (name.n > NAME_MAX_LEN || number <= 0 || number > UINT16_MAX)
        return;
    /* All or nothing: a port that does not fit is left out whole. */
    if (sw_buf_len(out) + name.n + 3 > out->max)
        return;
    (void)!sw_buf_append(out, &head, 1);
    (void)!sw_buf_append_slice(out, name);
    (void)!sw_buf_append(out, tail, 2);
}

void mesh_ports_add(struct sw_buf *out, const struct sw_json *list, const char *member,
                    bool unnamed)
{
    for (size_t i = 0; i < sw_json_len(list) && i < MESH_PORTS_MAX; i++) {
        const struct sw_json *p = sw_json_at(list, i);
        struct sw_slice name = js_or(p, "name", "");

        if (sw_slice_eq_str(js_or(p, "protocol", "TCP"), "TCP") && (name.n || unnamed))
            add(out, name, js_int(p, member, UINT16_MAX, 0));
    }
}

void mesh_ports_add_map(struct sw_buf *out, const struct sw_json *map)
{
    for (size_t i = 0;
         sw_json_is(map, SW_JSON_OBJECT) && i < sw_json_len(map) && i < MESH_PORTS_MAX; i++) {
        const struct sw_json_member *m = sw_json_member_at(map, i);
        int64_t n;

        if (m->key.n && sw_json_exact_i64(m->value, &n))
            add(out, m->key, n);
    }
}

uint16_t mesh_ports_find(const struct mesh_text *ports, struct sw_slice name)
{
    struct sw_slice rest = mesh_str(ports);

    while (rest.n) {
        size_t n = (uint8_t)rest.p[0];
        const uint8_t *number = (const uint8_t *)rest.p + 1 + n;

        if (sw_slice_eq(sw_slice(rest.p + 1, n), name))
            return (uint16_t)(number[0] << 8 | number[1]);
        rest = sw_slice_from(rest, n + 3);
    }
    return 0;
}

uint16_t mesh_target_port(const struct mesh_svc *s, const struct mesh_port *p,
                          const struct mesh_text *named, bool entry)
{
    uint16_t found;

    if (s->entry) {
        found = mesh_ports_find(named, p->name);
        return found ? found : p->target;
    }
    if (p->target_name.n)
        return mesh_ports_find(named, p->target_name);
    if (entry) {
        found = mesh_ports_find(named, p->name);
        if (found)
            return found;
    }
    return p->target;
}
