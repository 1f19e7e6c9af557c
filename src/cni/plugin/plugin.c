/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ADD asks the node agent and waits for it: a pod that belongs to the mesh starts redirected or not
 * at all. DEL and GC only notify it, and always succeed: the agent learns of the end anyway. So
 * does STATUS, which only logs: ADD holds what cannot start yet, and passes excluded pods.
 */
#include "cni/plugin/plugin.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/time.h"
#include "cni/plugin/call.h"
#include "cni/plugin/request.h"

enum {
    ANSWER_MAX = 4096,
    SHORT_S = 5, /* DEL, GC and CHECK */
    STATUS_S = 2,
    AGAIN_MS = 250,
};

bool sw_cni_called(void)
{
    return getenv("CNI_COMMAND") != NULL;
}

static int print(const struct sw_json *v)
{
    SW_BUF_AUTO out = {.max = 4 * SW_CNI_INPUT_MAX};

    if (sw_json_write(&out, v, NULL) != SW_OK || sw_buf_putc(&out, '\n') != SW_OK)
        return 1;
    (void)fwrite(sw_buf_data(&out), 1, sw_buf_len(&out), stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}

static int fail(struct sw_arena *a, const struct sw_cni_request *r, enum sw_cni_code code,
                const char *msg)
{
    (void)fprintf(stderr, SW_CNI_PLUGIN ": %s\n", msg);
    (void)print(sw_cni_error(a, r->version, code, msg));
    return 1;
}

/* One call; the code for the runtime and, in err, the reason. */
static enum sw_cni_code ask(struct sw_arena *a, const struct sw_cni_request *r, const char *path,
                            uint64_t deadline_ns, struct sw_err *err)
{
    const struct sw_cni_post post = {.socket = r->socket,
                                     .path = path,
                                     .body = sw_json_text(a, sw_cni_agent_body(a, r), NULL),
                                     .deadline_ns = deadline_ns};
    SW_BUF_AUTO answer = {.max = ANSWER_MAX};
    int status = 0;
    int rc = sw_cni_call(&post, &status, &answer, err);
    struct sw_slice text = sw_slice_trim(sw_buf_slice(&answer));

    if (rc == SW_OK && status == 200)
        return SW_CNI_OK;
    if (rc == SW_OK)
        (void)sw_err_set(err, SW_EDENIED, "node agent: %.*s", SW_SLICE_ARG_MAX(text, 150));
    else
        (void)sw_err_prefix(err, "node agent");
    return rc == SW_OK && status != 503 ? SW_CNI_REFUSED : SW_CNI_TRY_LATER;
}

/* Waits for an agent that is not there or not ready; only time or a plain no ends it. */
static enum sw_cni_code ask_patiently(struct sw_arena *a, const struct sw_cni_request *r,
                                      struct sw_err *err)
{
    uint64_t deadline_ns = sw_now_ns() + r->timeout_ns;
    enum sw_cni_code code;

    for (;;) {
        struct sw_err why = {0};

        code = ask(a, r, "/cmdadd", deadline_ns, &why);
        /* The reason of an earlier try says more than that time is over. */
        if (code == SW_CNI_OK || why.rc != SW_ETIME || err->rc == SW_OK)
            *err = why;
        if (code != SW_CNI_TRY_LATER || sw_now_ns() + AGAIN_MS * SW_NS_PER_MS >= deadline_ns)
            return code;
        (void)poll(NULL, 0, AGAIN_MS);
    }
}

static int do_add(struct sw_arena *a, const struct sw_cni_request *r)
{
    struct sw_json *result = NULL;
    struct sw_err err = {0};
    enum sw_cni_code code = SW_CNI_OK;

    if (sw_cni_result(a, r, &result, &err) != SW_OK)
        return fail(a, r, SW_CNI_BAD_VERSION, err.msg);
    if (!sw_cni_passes(r))
        code = ask_patiently(a, r, &err);
    return code == SW_CNI_OK ? print(result) : fail(a, r, code, err.msg);
}

static int do_check(struct sw_arena *a, const struct sw_cni_request *r)
{
    uint64_t deadline_ns = sw_now_ns() + 2 * SHORT_S * SW_NS_PER_S;
    struct sw_err err = {0};
    enum sw_cni_code code = SW_CNI_OK;

    if (!r->prev)
        return fail(a, r, SW_CNI_BAD_CONFIG, "prevResult is missing");
    if (!sw_cni_passes(r))
        code = ask(a, r, "/cmdcheck", deadline_ns, &err);
    return code == SW_CNI_OK ? 0 : fail(a, r, code, err.msg);
}

/* What goes wrong is a line in the runtime's log, and nothing else. */
static int notify_agent(struct sw_arena *a, const struct sw_cni_request *r, const char *path,
                        uint64_t timeout_s)
{
    struct sw_err err = {0};

    if (ask(a, r, path, sw_now_ns() + timeout_s * SW_NS_PER_S, &err) != SW_CNI_OK)
        (void)fprintf(stderr, SW_CNI_PLUGIN ": %s\n", err.msg);
    return 0;
}

int sw_cni_plugin(void)
{
    const struct sw_cni_env env = {
        .command = getenv("CNI_COMMAND"),
        .container_id = getenv("CNI_CONTAINERID"),
        .netns = getenv("CNI_NETNS"),
        .ifname = getenv("CNI_IFNAME"),
        .args = getenv("CNI_ARGS"),
    };
    SW_BUF_AUTO in = {.max = SW_CNI_INPUT_MAX};
    SW_ARENA_AUTO a = {0};
    struct sw_cni_request r = {0};
    enum sw_cni_code code = SW_CNI_IO;
    struct sw_err err = {0};

    if (sw_fd_read_all(STDIN_FILENO, "configuration", &in, &err) != SW_OK ||
        sw_cni_request_parse(&a, &env, sw_buf_slice(&in), &r, &code, &err) != SW_OK)
        return fail(&a, &r, code, err.msg);
    switch (r.command) {
    case SW_CNI_ADD:
        return do_add(&a, &r);
    case SW_CNI_DEL: /* an agent that misses it finds out by itself; GC likewise */
        return notify_agent(&a, &r, "/cmddel", SHORT_S);
    case SW_CNI_CHECK:
        return do_check(&a, &r);
    case SW_CNI_GC:
        return notify_agent(&a, &r, "/cmdgc", SHORT_S);
    case SW_CNI_STATUS:
        /*
         * Never fails for the agent's sake: a runtime takes that for a node without a network, on
         * which the kubelet starts no pod with a network of its own, the agent and the node proxy
         * among them. Asked every few seconds: the answer does not wait for long.
         */
        return notify_agent(&a, &r, "/status", STATUS_S);
    case SW_CNI_VERSION:
        return print(sw_cni_versions(&a, r.version));
    }
    return 1;
}
