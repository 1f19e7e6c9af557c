/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/dns.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "control/dns/publisher.h"
#include "dns/authority.h"
#include "dns/stub.h"
#include "dns/update.h"

enum { KEY_FILE_MAX = 4096 };

struct sw_control_dns {
    struct sw_arena arena;
    struct sw_loop *loop;
    const struct sw_control_dns_opts *o;
    struct sw_dns_zone_conf zone;
    uint32_t serial;
    int serial_fd; /* where it is kept across restarts; -1: nowhere */
    struct sw_dns_authority *authority;
    struct sw_dns_updater *updater;
    struct sw_dns_publisher *publisher;
    struct sw_metrics_shard *metrics;
};

bool sw_control_dns_wanted(const struct sw_control_dns_opts *o)
{
    return o->listen.n || o->update;
}

/* ---- what survives a restart ---- */

/* The first line of a file in the data directory; empty when there is none. */
static struct sw_slice read_line(struct sw_control_dns *d, const char *name)
{
    char *path = sw_arena_printf(&d->arena, "%s/%s", d->o->data, name);
    struct sw_slice text = {0};
    struct sw_slice line;

    if (sw_file_read(path, KEY_FILE_MAX, &text, NULL) != SW_OK)
        return (struct sw_slice){0};
    line = text;
    line = sw_arena_slice(&d->arena, sw_slice_trim(sw_slice_cut(&line, '\n')));
    sw_slice_free(&text);
    return line;
}

/*
 * Serials only grow, also across restarts: secondaries believe nothing else. They follow the clock,
 * and run ahead of it while more than one change a second comes.
 */
static uint32_t next_serial(struct sw_control_dns *d)
{
    uint32_t now = (uint32_t)(sw_wall_ns() / SW_NS_PER_S);
    char text[16];
    int n;

    d->serial = (int32_t)(now - d->serial) > 0 ? now : d->serial + 1;
    d->serial += d->serial == 0;
    n = snprintf(text, sizeof(text), "%10u\n", d->serial);
    if (d->serial_fd >= 0 && pwrite(d->serial_fd, text, (size_t)n, 0) != n)
        sw_log_warn("dns", "cannot write the serial of the zone into the data directory");
    return d->serial;
}

static int open_serial(struct sw_control_dns *d, struct sw_err *err)
{
    struct sw_slice line = read_line(d, "dns-serial");
    char *path = sw_arena_printf(&d->arena, "%s/dns-serial", d->o->data);
    uint64_t v;

    d->serial = (uint32_t)(sw_wall_ns() / SW_NS_PER_S) - 1;
    if (sw_slice_to_u64(line, UINT32_MAX, &v) && (int32_t)((uint32_t)v - d->serial) > 0)
        d->serial = (uint32_t)v;
    d->serial_fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return d->serial_fd >= 0 ? SW_OK : sw_err_sys(err, errno, "cannot write '%s'", path);
}

static const char *owner_name(struct sw_control_dns *d)
{
    struct sw_slice line = d->o->owner ? sw_slice_str(d->o->owner) : read_line(d, "dns-owner");
    char *path = sw_arena_printf(&d->arena, "%s/dns-owner", d->o->data);
    uint64_t id;
    char *text;
    int fd;

    if (line.n)
        return line.p;
    sw_rand_bytes(&id, sizeof(id));
    text = sw_arena_printf(&d->arena, "%016llx", (unsigned long long)id);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        sw_log_warn(
            "dns",
            "cannot write '%s': after a restart own records will count as another publisher's",
            path);
    if (fd >= 0)
        (void)close(fd);
    return text;
}

/* ---- options ---- */

/* The server of that name, a new one when it is not there yet. */
static struct sw_dns_ns *ns_named(struct sw_dns_zone_conf *z, const struct sw_dns_name *name)
{
    for (size_t i = 0; i < z->n_ns; i++)
        if (sw_dns_name_eq(&z->ns[i].name, name))
            return &z->ns[i];
    if (z->n_ns == SW_DNS_NS_MAX)
        return NULL;
    z->ns[z->n_ns].name = *name;
    return &z->ns[z->n_ns++];
}

/* "NAME" or "NAME=IP"; a name without a dot stands below the zone. */
static int add_ns(struct sw_dns_zone_conf *z, struct sw_slice text, struct sw_err *err)
{
    struct sw_slice rest = text;
    struct sw_slice name = sw_slice_cut(&rest, '=');
    struct sw_dns_name full;
    struct sw_dns_ns *ns;
    int rc = sw_slice_find(name, '.') < 0 ? sw_dns_name_join(name, &z->origin, &full, err)
                                          : sw_dns_name_parse(name, &full, err);

    if (rc != SW_OK)
        return sw_err_prefix(err, "--dns-ns");
    ns = ns_named(z, &full);
    if (!ns || (rest.p && ns->n_ips == SW_ARRAY_LEN(ns->ips)))
        return sw_err_set(err, SW_EINVAL, "--dns-ns: too many servers or addresses");
    if (!rest.p)
        return SW_OK;
    rc = sw_ip_parse(rest, &ns->ips[ns->n_ips], err);
    if (rc != SW_OK)
        return sw_err_prefix(err, "--dns-ns");
    ns->n_ips++;
    return SW_OK;
}

static int read_zone(struct sw_control_dns *d, struct sw_err *err)
{
    struct sw_dns_zone_conf *z = &d->zone;
    struct sw_addr at = {0};
    int rc;

    if (!d->o->zone)
        return sw_err_set(err, SW_EINVAL, "--dns-zone: needed with --dns-listen and --dns-update");
    rc = sw_dns_name_parse(sw_slice_str(d->o->zone), &z->origin, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, "--dns-zone");
    if (z->origin.n > SW_DNS_NAME_MAX - 70)
        return sw_err_set(err, SW_EINVAL, "--dns-zone: too long for names of connectors below it");
    z->negative_ttl = d->o->ttl;
    for (size_t i = 0; i < d->o->ns.n && rc == SW_OK; i++)
        rc = add_ns(z, sw_slice_str(d->o->ns.p[i]), err);
    if (rc != SW_OK || z->n_ns)
        return rc;
    rc = add_ns(z, SW_SLICE_LIT("ns"), err);
    if (rc == SW_OK && d->o->listen.n &&
        sw_addr_parse(sw_slice_str(d->o->listen.p[0]), &at, NULL) == SW_OK &&
        !sw_ip_is_any(&at.ip)) {
        z->ns[0].ips[0] = at.ip;
        z->ns[0].n_ips = 1;
    } else if (rc == SW_OK && d->o->listen.n) {
        sw_log_warn("dns", "the zone has a server without address: give it one with --dns-ns");
    }
    return rc;
}

static int read_key(struct sw_control_dns *d, const char *flag, const char *path,
                    struct sw_dns_key *ret, struct sw_err *err)
{
    struct sw_slice text = {0};
    int rc = sw_file_read(path, KEY_FILE_MAX, &text, err);

    if (rc == SW_OK)
        rc = sw_dns_key_parse(&d->arena, text, ret, err);
    sw_slice_free(&text);
    return rc == SW_OK ? SW_OK : sw_err_prefix(err, "%s", flag);
}

static int server_options(struct sw_control_dns *d, struct sw_dns_authority_opts *ao,
                          struct sw_err *err)
{
    const struct sw_control_dns_opts *o = d->o;
    int rc = SW_OK;

    if (o->listen.n > SW_DNS_LISTEN_MAX || o->secondaries.n > SW_DNS_SECONDARIES_MAX ||
        o->keys.n > SW_DNS_KEYS_MAX)
        return sw_err_set(err, SW_EINVAL,
                          "too many --dns-listen, --dns-secondary or "
                          "--dns-transfer-key");
    for (size_t i = 0; i < o->listen.n && rc == SW_OK; i++) {
        rc = sw_addr_parse(sw_slice_str(o->listen.p[i]), &ao->listen[ao->n_listen++], err);
        if (rc != SW_OK)
            return sw_err_prefix(err, "--dns-listen");
    }
    for (size_t i = 0; i < o->secondaries.n && rc == SW_OK; i++) {
        rc = sw_dns_server_parse(sw_slice_str(o->secondaries.p[i]),
                                 &ao->secondaries[ao->n_secondaries++], err);
        if (rc != SW_OK)
            return sw_err_prefix(err, "--dns-secondary");
    }
    for (size_t i = 0; i < o->keys.n && rc == SW_OK; i++)
        rc = read_key(d, "--dns-transfer-key", o->keys.p[i], &ao->keys[ao->n_keys++], err);
    ao->rate = o->rate;
    ao->metrics = d->metrics;
    return rc;
}

/* ---- records ---- */

static void on_records(void *arg, const struct sw_dns_rrset *sets, size_t n)
{
    struct sw_control_dns *d = arg;
    struct sw_err err = {0};
    struct sw_dns_zone *z;

    if (d->updater)
        sw_dns_updater_set(d->updater, sets, n);
    if (!d->authority)
        return;
    z = sw_dns_zone_new(&d->zone, sets, n, next_serial(d), &err);
    if (!z) {
        sw_log_error("dns", "zone update failed, keeping the previous zone: %s", err.msg);
        return;
    }
    sw_dns_authority_set_zone(d->authority, z);
    sw_log_debug("dns", "zone %s has serial %u and %zu names of connectors", d->o->zone,
                 sw_dns_zone_serial(z), n);
    (void)sw_dns_zone_unref(z);
}

/* ---- life ---- */

static int start_server(struct sw_control_dns *d, struct sw_err *err)
{
    struct sw_dns_authority_opts *ao = SW_ARENA_NEW(&d->arena, struct sw_dns_authority_opts);
    int rc = server_options(d, ao, err);

    if (rc == SW_OK)
        rc = open_serial(d, err);
    if (rc != SW_OK)
        return rc;
    d->authority = sw_dns_authority_new(d->loop, ao, err);
    return d->authority ? SW_OK : sw_err_prefix(err, "--dns-listen");
}

static int start_updater(struct sw_control_dns *d, struct sw_err *err)
{
    struct sw_dns_updater_opts uo = {
        .zone = d->zone.origin, .resync_ns = d->o->resync_ns, .metrics = d->metrics};
    int rc = sw_dns_server_parse(sw_slice_str(d->o->update), &uo.server, err);

    if (rc != SW_OK)
        return sw_err_prefix(err, "--dns-update");
    if (!d->o->tsig_key)
        return sw_err_set(err, SW_EINVAL, "--dns-tsig-key: needed with --dns-update");
    rc = read_key(d, "--dns-tsig-key", d->o->tsig_key, &uo.key, err);
    if (rc != SW_OK)
        return rc;
    uo.owner = owner_name(d);
    d->updater = sw_dns_updater_new(d->loop, &uo);
    return SW_OK;
}

static int start(struct sw_control_dns *d, struct sw_kube_client *c, struct sw_err *err)
{
    struct sw_dns_publisher_opts po = {.ttl_s = d->o->ttl,
                                       .stale_after_ns = d->o->stale_ns,
                                       .publish = on_records,
                                       .arg = d,
                                       .threaded = true,
                                       .record = d->o->record};
    int rc = read_zone(d, err);

    if (rc == SW_OK && d->o->listen.n)
        rc = start_server(d, err);
    if (rc == SW_OK && d->o->update)
        rc = start_updater(d, err);
    if (rc != SW_OK)
        return rc;
    po.origin = d->zone.origin;
    d->publisher = sw_dns_publisher_new(d->loop, c, &po, err);
    if (!d->publisher)
        return err->rc;
    sw_dns_publisher_start(d->publisher);
    return SW_OK;
}

struct sw_control_dns *sw_control_dns_new(struct sw_loop *l, struct sw_kube_client *c,
                                          struct sw_metrics_shard *metrics,
                                          const struct sw_control_dns_opts *o, struct sw_err *err)
{
    struct sw_control_dns *d = SW_NEW(struct sw_control_dns);

    d->loop = l;
    d->o = o;
    d->metrics = metrics;
    d->serial_fd = -1;
    if (start(d, c, err) != SW_OK) {
        sw_control_dns_free(d);
        return NULL;
    }
    return d;
}

struct sw_addr sw_control_dns_addr(const struct sw_control_dns *d)
{
    return d->authority ? sw_dns_authority_addr(d->authority) : (struct sw_addr){0};
}

void sw_control_dns_stop(struct sw_control_dns *d, void (*done)(void *arg), void *arg)
{
    sw_dns_publisher_stop(d->publisher, done, arg);
}

void sw_control_dns_free(struct sw_control_dns *d)
{
    if (!d)
        return;
    sw_dns_publisher_free(d->publisher);
    sw_dns_updater_free(d->updater);
    sw_dns_authority_free(d->authority);
    if (d->serial_fd >= 0)
        (void)close(d->serial_fd);
    sw_arena_clear(&d->arena);
    sw_free(d);
}
