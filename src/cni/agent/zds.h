/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node agent's side of ZDS: node proxies connect, get all pods and every change.
 * During an upgrade there are two; pods are added to the newest and deleted from all.
 */
#pragma once

#include "base/err.h"
#include "io/loop.h"
#include "zds/zds.h"

struct sw_zds_server;
struct sw_zds_conn;

struct sw_zds_server_ops {
    /* A proxy sent its hello: send it all pods by sw_zds_conn_send. It is the newest now. */
    void (*snapshot)(void *arg, struct sw_zds_conn *c);
    /* The newest acknowledged an ADD; error is empty when it serves the pod. */
    void (*added)(void *arg, struct sw_slice uid, struct sw_slice error);
    /* The newest went; another may be the newest now. */
    void (*lost)(void *arg);
};

/*
 * Listens at path, for root only. Proxies wait until sw_zds_server_open: one that got too few pods
 * would drop the others. NULL with err.
 */
SW_NODISCARD struct sw_zds_server *sw_zds_server_new(struct sw_loop *l, const char *path,
                                                     const struct sw_zds_server_ops *ops, void *arg,
                                                     struct sw_err *err);
void sw_zds_server_open(struct sw_zds_server *s);
/* Closes all connections and the socket's file; no callback comes any more. NULL is fine. */
void sw_zds_server_free(struct sw_zds_server *s);
/* The proxy that got all pods and gets new ones; NULL: none. */
struct sw_zds_conn *sw_zds_server_newest(const struct sw_zds_server *s);
/* Deletes the pod from all. */
void sw_zds_server_del(struct sw_zds_server *s, struct sw_slice uid);
/* Queues a request; the namespace of an ADD is borrowed. Of what fails nothing was sent. */
SW_NODISCARD int sw_zds_conn_send(struct sw_zds_conn *c, const struct sw_zds_request *r,
                                  int netns_fd, struct sw_err *err);
