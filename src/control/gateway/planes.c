/* SPDX-License-Identifier: Apache-2.0 */
#include "control/gateway/planes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/search.h"

enum { NODE_MAX = 128, WHY_MAX = 400, LISTENER_MAX = 256 };

static const char refused[] = "Error adding/updating listener(s) ";
static const char in_use[] = "already in use";
static const char cannot_bind[] = "cannot bind";

struct sw_slice sw_planes_name(struct sw_arena *a, struct sw_slice listener,
                               struct sw_slice gateway)
{
    return sw_slice_str(
        sw_arena_printf(a, "%.*s@%.*s", SW_SLICE_ARG(listener), SW_SLICE_ARG(gateway)));
}

void sw_planes_done(struct sw_planes *p)
{
    sw_map_done(&p->held);
    sw_map_done(&p->faults);
    sw_arena_clear(&p->arena);
}

/* A bounded copy on one line. */
static struct sw_slice clean(struct sw_planes *p, struct sw_slice s, size_t max)
{
    size_t n = sw_min(s.n, max);
    char *out = sw_arena_alloc(&p->arena, n + 1);

    while (n && n < s.n && ((unsigned char)s.p[n] & 0xc0) == 0x80)
        n--; /* not in the middle of a character */
    for (size_t i = 0; i < n; i++)
        out[i] = (char)((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f ? ' ' : s.p[i]);
    out[n] = '\0';
    return sw_slice(out, n);
}

static bool is_name(struct sw_slice name)
{
    for (size_t i = 0; i < name.n; i++) {
        if ((unsigned char)name.p[i] <= ' ' || name.p[i] == 0x7f)
            return false;
    }
    return name.n && name.n <= LISTENER_MAX;
}

void sw_planes_hold(struct sw_planes *p, struct sw_slice name)
{
    if (!is_name(name) || p->held.n >= SW_PLANES_MAX || sw_map_get(&p->held, name))
        return;
    (void)sw_map_put(&p->held, sw_arena_slice(&p->arena, name), p);
}

void sw_planes_fault(struct sw_planes *p, struct sw_slice name, struct sw_slice node,
                     struct sw_slice why)
{
    struct sw_plane_fault *f;

    if (!is_name(name) || p->faults.n >= SW_PLANES_MAX || sw_map_get(&p->faults, name))
        return;
    f = SW_ARENA_NEW(&p->arena, struct sw_plane_fault);
    f->node = clean(p, node, NODE_MAX);
    f->why = clean(p, why, WHY_MAX);
    (void)sw_map_put(&p->faults, sw_arena_slice(&p->arena, name), f);
}

void sw_planes_refusal(struct sw_planes *p, struct sw_slice node, struct sw_slice text,
                       bool (*known)(void *arg, struct sw_slice name), void *arg)
{
    while (text.n) {
        struct sw_slice line = sw_slice_cut(&text, '\n');
        struct sw_slice name;

        if (sw_slice_has_prefix(line, SW_SLICE_LIT(refused)))
            line = sw_slice_from(line, sizeof(refused) - 1);
        /* Names may have colons (IPv6), what follows one is a blank. */
        for (size_t i = 0; i + 1 < line.n; i++) {
            if (line.p[i] != ':' || line.p[i + 1] != ' ')
                continue;
            name = sw_slice_head(line, i);
            if (known(arg, name))
                sw_planes_fault(p, name, node, sw_slice_from(line, i + 2));
            break;
        }
    }
}

/* ---- text ---- */

static struct sw_slice *sorted_keys(const struct sw_map *m)
{
    struct sw_slice *keys = SW_NEW_ARRAY(struct sw_slice, m->n + 1);
    size_t n = 0;

    SW_MAP_FOREACH (it, m)
        keys[n++] = it->key;
    sw_slice_sort(keys, n);
    return keys;
}

int sw_planes_write(const struct sw_planes *p, struct sw_buf *out)
{
    SW_AUTO_FREE struct sw_slice *held = sorted_keys(&p->held);
    SW_AUTO_FREE struct sw_slice *faults = sorted_keys(&p->faults);
    int rc = sw_buf_printf(out, "%splanes %zu\n", p->starting ? "starting\n" : "", p->n);

    for (size_t i = 0; i < p->held.n && rc == SW_OK; i++)
        rc = sw_buf_printf(out, "held %.*s\n", SW_SLICE_ARG(held[i]));
    for (size_t i = 0; i < p->faults.n && rc == SW_OK; i++) {
        const struct sw_plane_fault *f = sw_map_get(&p->faults, faults[i]);

        rc = sw_buf_printf(out, "fault %.*s\t%.*s\t%.*s\n", SW_SLICE_ARG(faults[i]),
                           SW_SLICE_ARG(f->node), SW_SLICE_ARG(f->why));
    }
    return rc;
}

void sw_planes_read(struct sw_planes *p, struct sw_slice text)
{
    while (text.n) {
        struct sw_slice rest = sw_slice_cut(&text, '\n');
        struct sw_slice word = sw_slice_cut(&rest, ' ');
        uint64_t n;

        if (sw_slice_eq_str(word, "starting")) {
            p->starting = true;
        } else if (sw_slice_eq_str(word, "planes") && sw_slice_to_u64(rest, 1000000, &n)) {
            p->n += n;
        } else if (sw_slice_eq_str(word, "held")) {
            sw_planes_hold(p, rest);
        } else if (sw_slice_eq_str(word, "fault")) {
            struct sw_slice name = sw_slice_cut(&rest, '\t');
            struct sw_slice node = sw_slice_cut(&rest, '\t');

            sw_planes_fault(p, name, node, rest);
        }
    }
}

/* ---- conditions ---- */

static bool says(struct sw_slice text, const char *what)
{
    return text.n && memmem(text.p, text.n, what, strlen(what));
}

const char *sw_plane_reason(const struct sw_plane_fault *f)
{
    if (says(f->why, in_use))
        return "AddressInUse";
    return says(f->why, cannot_bind) ? "AddressNotUsable" : "Invalid";
}
