/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Secrets of one namespace that hold a mesh's CA: `cacerts`, which an operator plugged in, or
 * else `istio-ca-secret`, which is ours to make and to change. Watched; everything runs on the loop
 * of the client.
 */
#pragma once

#include "base/slice.h"

struct sw_ca_material;
struct sw_ca_secret;
struct sw_json;
struct sw_kube_client;

#define SW_CA_SECRET_PLUGGED "cacerts"
#define SW_CA_SECRET_OWN     "istio-ca-secret"

struct sw_ca_secret_opts {
    struct sw_kube_client *client; /* borrowed */
    const char *ns;                /* copied */
    /* The Secret that counts was read, or changed; NULL: there is none. */
    void (*on_secret)(void *arg, const struct sw_json *secret);
    void *arg;
};

struct sw_ca_secret *sw_ca_secret_new(const struct sw_ca_secret_opts *o);
/* NULL is fine. */
void sw_ca_secret_free(struct sw_ca_secret *s);
/*
 * Makes our own Secret, or changes the one that was read last. When another replica was faster, its
 * state comes by on_secret; other failures are logged, and the caller tries again later. Nothing
 * happens while a write is under way.
 */
void sw_ca_secret_write(struct sw_ca_secret *s, const struct sw_ca_material *m);
