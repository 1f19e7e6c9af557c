/* SPDX-License-Identifier: Apache-2.0 */
/* The client of commands that end: requests to a Kubernetes API one by one, each waited for. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "kube/client/client.h"

/* All zero before it is opened. */
struct sw_cmd_api {
    struct sw_loop *loop;
    struct sw_kube_client *client;
    struct sw_arena arena; /* of the replies; the command may use it, too */
};

/* In the arena. */
struct sw_cmd_reply {
    int rc;
    int code;               /* of HTTP; 0: there was no answer */
    struct sw_json *object; /* NULL: none */
    struct sw_slice message;
};

/* Finds the configuration as sw_kube_config_find does. Call sw_cmd_api_close in every case. */
SW_NODISCARD int sw_cmd_api_open(struct sw_cmd_api *a, const char *kubeconfig, const char *context,
                                 struct sw_err *err);
/* The same with a configuration, which is taken over: empty afterwards, also on failure. */
SW_NODISCARD int sw_cmd_api_start(struct sw_cmd_api *a, struct sw_kube_config *c,
                                  struct sw_err *err);
/* Half-opened ones are fine. */
void sw_cmd_api_close(struct sw_cmd_api *a);

/* One request; without a timeout of its own it has 15 seconds. Returns ret->rc. */
int sw_cmd_api_do(struct sw_cmd_api *a, const struct sw_kube_req *req, struct sw_cmd_reply *ret);
/* The same with the beginning of the message in err. ret may be NULL. */
SW_NODISCARD int sw_cmd_api_ask(struct sw_cmd_api *a, const struct sw_kube_req *req,
                                struct sw_json **ret, struct sw_err *err);
/*
 * The next page of a list, whose items are *ret: another one follows while req->continue_token is
 * not empty.
 */
SW_NODISCARD int sw_cmd_api_page(struct sw_cmd_api *a, struct sw_kube_req *req,
                                 const struct sw_json **ret, struct sw_err *err);
/* A server-side apply, with the beginning of the message in err. */
SW_NODISCARD int sw_cmd_api_apply(struct sw_cmd_api *a, const struct sw_kube_apply *p,
                                  struct sw_err *err);
