/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small file per pod with the path of its network namespace, in the run directory, which a reboot
 * empties. An agent that starts again finds its pods by it even where no process shows whose it is.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cni/agent/agent_int.h"
#include "io/netns.h"

enum { RECORD_MAX = 8192, PATH_LEN = 1024 };

/* A name that stays in its directory. */
static bool uid_ok(const char *uid)
{
    size_t n = strlen(uid);

    return n > 0 && n <= 128 &&
           strspn(uid, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") == n;
}

static bool path_of(const struct sw_agent_config *c, const char *uid, char path[PATH_LEN])
{
    int n = snprintf(path, PATH_LEN, "%s/pods/%s", c->run_dir, uid);

    return uid_ok(uid) && n > 0 && n < PATH_LEN;
}

void agent_record_write(const struct agent_pod *p)
{
    const struct sw_agent_config *c = p->agent->config;
    SW_ARENA_AUTO a = {0};
    struct sw_json *doc = sw_json_new_object(&a);
    char path[PATH_LEN];
    struct sw_err err = {0};

    if (!p->netns_path || !path_of(c, p->uid, path))
        return;
    sw_json_put_text(&a, doc, "netns", p->netns_path);
    sw_json_put_text(&a, doc, "containerID", p->container_id ? p->container_id : "");
    if (sw_file_write(path, sw_json_text(&a, doc, NULL), 0600, true, &err) != SW_OK)
        sw_log_warn("agent", "%s", err.msg);
}

void agent_record_remove(const struct sw_agent_config *c, const char *uid)
{
    char path[PATH_LEN];

    if (path_of(c, uid, path))
        (void)unlink(path);
}

bool agent_record_parse(struct sw_arena *a, struct sw_slice text, struct agent_record *ret)
{
    struct sw_json *doc = NULL;

    if (sw_json_parse(a, text, NULL, &doc, NULL) != SW_OK)
        return false;
    ret->netns = sw_arena_dup(a, sw_json_str(sw_json_find(doc, "netns")));
    ret->container_id = sw_arena_dup(a, sw_json_str(sw_json_find(doc, "containerID")));
    return ret->netns[0] != '\0';
}

bool agent_record_open(const struct sw_agent_config *c, const char *uid, int *ret_fd,
                       char **ret_container_id)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice text = {0};
    struct agent_record r;
    char path[PATH_LEN];
    bool ok = false;

    if (!path_of(c, uid, path) || sw_file_read(path, RECORD_MAX, &text, NULL) != SW_OK)
        return false;
    if (agent_record_parse(&a, text, &r)) {
        const char *open_at = sw_arena_printf(&a, "%s%s", c->netns_prefix, r.netns);

        ok = sw_netns_open(open_at, ret_fd, NULL) == SW_OK;
        if (ok && ret_container_id)
            *ret_container_id = sw_strdup(r.container_id);
    }
    sw_slice_free(&text);
    return ok;
}

/* Records, and what a write that was cut short left of one. */
static void remove_entry(DIR *d, const char *name)
{
    if (name[0] != '.')
        (void)unlinkat(dirfd(d), name, 0);
}

void agent_record_each(const struct sw_agent_config *c, void (*fn)(int netns_fd, void *arg),
                       void *arg)
{
    SW_AUTO_FREE char *path = sw_asprintf("%s/pods", c->run_dir);
    SW_AUTO_DIR *d = opendir(path);
    const char *name;

    while ((name = sw_dir_next(d)) != NULL) {
        int fd = -1;

        if (agent_record_open(c, name, &fd, NULL)) {
            fn(fd, arg);
            (void)close(fd);
        }
        remove_entry(d, name);
    }
    (void)rmdir(path);
}

void agent_record_prune(const struct sw_agent_config *c, bool (*keep)(const char *uid, void *arg),
                        void *arg)
{
    SW_AUTO_FREE char *path = sw_asprintf("%s/pods", c->run_dir);
    SW_AUTO_DIR *d = opendir(path);
    const char *name;

    while ((name = sw_dir_next(d)) != NULL) {
        if (!keep(name, arg))
            remove_entry(d, name);
    }
}
