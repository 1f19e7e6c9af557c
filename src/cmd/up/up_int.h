/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `spanwire up` share: its settings, its state, and how roles are described. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "cmd/supervise.h"
#include "io/addr.h"
#include "io/loop.h"
#include "opts/process.h"

struct sw_demo_app;
struct sw_signals;
struct sw_up_page;
struct sw_up_ports;
struct up_second;

enum {
    /* Distances from --port-base. */
    PORT_ADMIN = 0,
    PORT_XDS = 12,
    PORT_STATS = 20,
    PORT_READY = 21,
    PORT_RELAY_ADMIN = 31,
    PORT_RELAY_STATS = 32,
    PORT_RELAY_READY = 33,
    PORT_SIDECAR_ADMIN = 41,
    PORT_SIDECAR_STATS = 42,
    PORT_SIDECAR_READY = 43,
    PORT_LINK_CONTROL = 44,
    PORT_LINK = 45,
    PORT_LINK_ADMIN = 46,
    PORT_LINK_STATS = 47,
    PORT_LINK_READY = 48,
    PORT_SECOND_API = 51,
    PORT_SECOND_CONTROL = 52,
    PORT_SECOND_LINK = 53,
    PORT_SECOND_ADMIN = 54,
    PORT_SECOND_STATS = 55,
    PORT_SECOND_READY = 56,
    PORT_EXPOSE_ADMIN = 60,
    PORTS = 64,
};

enum { UP_IMPORT_PORTS = 10 }; /* from --import-port on */

/* The demo is a device like any other. */
#define DEMO "demo" /* its account and its objects */

struct up_settings {
    const char *data;
    struct sw_addr listen;
    const char *address;
    uint32_t port_offset;
    uint32_t port_base;
    struct sw_addr relay;
    const char *relay_url;
    const char *target_domain;
    const char *device_ports;
    const char *cert_domain;
    bool demo;
    const char *demo_hostname;
    uint32_t import_port;
    bool verbose;
    uint64_t ready_timeout_ns;
    uint64_t stop_timeout_ns;
    const char *log_level;
    int log_format;
    bool access_log;
};

struct up {
    const struct up_settings *set;
    struct sw_arena *arena;
    struct sw_loop *loop;
    struct sw_signals *signals;
    struct sw_supervisor *sup;
    struct sw_supervised roles[SW_SUPERVISED_MAX];
    size_t n_roles;
    size_t n_first; /* of them, without the second site and its link */
    struct sw_demo_app *app;
    const char *data;       /* absolute: what is printed works from every directory */
    const char *kubeconfig; /* for people */
    const char *relay_url;
    uint64_t begin_ns;
    struct sw_up_page *page;  /* the demo's */
    struct up_second *second; /* owned; NULL: no demo */
    struct sw_up_ports *ports;
    bool unbound; /* the first listener could not be bound: that is why it ends */
    int rc;
    struct sw_err *err;
};

/* A path below the state's directory, in the arena. */
const char *up_path(struct up *u, const char *name);
/* A port of the roles' own, by its distance from --port-base. */
struct sw_addr up_local(const struct up *u, uint32_t port);
const char *up_local_text(struct up *u, uint32_t port);
/* "FIRST-LAST" */
const char *up_import_ports(struct up *u);
const char *up_addr_text(struct up *u, const struct sw_addr *a);
/* Appends an argument and its value; value NULL: none. */
void up_give(struct sw_supervised *r, const char *name, const char *value);
/* SW_EINVAL with u->err, which names the use and the option: another program has the port. */
SW_NODISCARD int up_check_port(const struct up *u, const struct sw_addr *at, const char *what,
                               const char *option);
/* A word that a shell reads as it is. */
const char *up_shell_word(const struct up *u, const char *text);
/* The next role, with what all roles are given. */
struct sw_supervised *up_add(struct up *u, const char *name);

void up_add_control(struct up *u);
void up_add_relay(struct up *u);
void up_add_sidecar(struct up *u);
void up_add_gateway(struct up *u);
SW_NODISCARD int up_add_demo(struct up *u);

/* ---- the second site of the demo, second.c ---- */

/* Makes directories and certificates that are missing, and the web app. Before the roles. */
SW_NODISCARD int up_second_prepare(struct up *u);
/* What the first site's control plane is given for the link. */
void up_second_give_control(struct up *u, struct sw_supervised *r);
/* Adds the first site's link and the roles of the second site, which start after all others. */
void up_second_add_roles(struct up *u);
/* SW_EINVAL with err: another program has one of the ports. */
SW_NODISCARD int up_second_check_ports(struct up *u);
/* All roles are ready: writes the objects of both sites, asks for the page, prints its URL. */
void up_second_link(struct up *u);
void up_second_done(struct up *u);
