/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/install/install.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/search.h"
#include "base/time.h"
#include "base/vec.h"
#include "cni/install/conflist.h"
#include "cni/plugin/plugin.h"
#include "io/filewatch.h"

enum {
    FILES_MAX = 1000,
    PACE_MS = 200, /* changes are looked at together */
    FIGHT_ROUNDS = 5,
    FIGHT_S = 10,
    COPY_CHUNK = 64 << 10,
};

struct sw_install {
    struct sw_install_opts o;
    struct sw_loop *loop;
    struct sw_filewatch *conf;
    struct sw_filewatch *bin;
    struct sw_timer pace;
    uint64_t round_ns; /* when repairs were counted from */
    unsigned rounds;
    bool done;
    bool waited; /* that there is no configuration was logged */
};

/* ---- files ---- */

static char *join(const char *dir, const char *name)
{
    return sw_asprintf("%s/%s", dir, name);
}

#define TMP_BIN "." SW_CNI_PLUGIN ".tmp"

struct names {
    SW_VEC(char *) v;
};

static void names_done(struct names *n)
{
    SW_VEC_FOREACH (char *, it, &n->v)
        sw_free(*it);
    sw_vec_done(&n->v);
}

/* Configuration files of the directory, sorted as runtimes sort them. */
static void list_files(const char *dir, struct names *ret)
{
    SW_AUTO_DIR *d = opendir(dir);
    const char *name;

    while (ret->v.n < FILES_MAX && (name = sw_dir_next(d)) != NULL) {
        if (sw_conflist_is_file(sw_slice_str(name)))
            sw_vec_push(&ret->v, sw_strdup(name));
    }
    if (ret->v.n)
        sw_text_sort(ret->v.p, ret->v.n);
}

/* ---- the configuration ---- */

static bool named(const struct sw_install_opts *o, const char *name)
{
    size_t n;

    if (!o->conf_name)
        return true;
    /* "x.conf" and "x.conflist" are the same: we turn one into the other. */
    n = strcspn(o->conf_name, ".");
    return strncmp(o->conf_name, name, n) == 0 && name[n] == '.';
}

/* The file a runtime would use: the first valid one. Its text is the caller's. */
static char *find_primary(const struct sw_install_opts *o, struct sw_slice *ret_text)
{
    struct names all = {0};
    char *found = NULL;

    list_files(o->conf_dir, &all);
    for (size_t i = 0; i < all.v.n && !found; i++) {
        char *path SW_AUTO_FREE = join(o->conf_dir, all.v.p[i]);

        if (named(o, all.v.p[i]) && sw_file_read(path, SW_CONFLIST_MAX, ret_text, NULL) == SW_OK) {
            if (sw_conflist_valid(*ret_text))
                found = sw_strdup(path);
            else
                sw_slice_free(ret_text);
        }
    }
    names_done(&all);
    return found;
}

static int edit(const struct sw_install_opts *o, const char *path, struct sw_slice text,
                struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice now;
    struct stat st;
    bool list = false;
    int rc = sw_conflist_insert(&a, text, o->plugin, &now, &list, err);
    const char *target = path;

    if (rc != SW_OK)
        return sw_err_prefix(err, "'%s'", path);
    if (stat(path, &st) != 0)
        return sw_err_sys(err, errno, "cannot look at '%s'", path);
    if (list) {
        const char *dot = strrchr(path, '.');

        target = sw_arena_printf(&a, "%.*s.conflist", (int)(dot - path), path);
    }
    rc = sw_file_write(target, now, st.st_mode & 0777, true, err);
    if (rc == SW_OK && target != path)
        (void)unlink(path);
    if (rc == SW_OK)
        sw_log_info("install", "plugin added to '%s'", target);
    return rc;
}

/* *ret_changed: something had to be written. SW_ENOENT: no configuration is there yet. */
static int check_conf(const struct sw_install_opts *o, bool *ret_changed, struct sw_err *err)
{
    struct sw_slice text = {0};
    char *path SW_AUTO_FREE = find_primary(o, &text);
    int rc = SW_OK;

    if (!path)
        return sw_err_set(err, SW_ENOENT, "no network configuration in '%s' yet", o->conf_dir);
    if (!sw_conflist_has(text, o->plugin)) {
        rc = edit(o, path, text, err);
        *ret_changed = true;
    }
    sw_slice_free(&text);
    return rc;
}

/* ---- the program ---- */

static bool same_content(int a, int b)
{
    char *pa = sw_malloc(COPY_CHUNK);
    char *pb = sw_malloc(COPY_CHUNK);
    struct stat sa;
    struct stat sb;
    bool same = fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_size == sb.st_size &&
                (sb.st_mode & 0111) != 0;

    for (off_t at = 0; same && at < sa.st_size; at += COPY_CHUNK) {
        ssize_t n = pread(a, pa, COPY_CHUNK, at);

        same = n > 0 && pread(b, pb, COPY_CHUNK, at) == n && memcmp(pa, pb, (size_t)n) == 0;
    }
    sw_free(pa);
    sw_free(pb);
    return same;
}

static int copy(int from, int to)
{
    char *p = sw_malloc(COPY_CHUNK);
    ssize_t n;

    while ((n = read(from, p, COPY_CHUNK)) > 0) {
        if (sw_fd_write_all(to, sw_slice(p, (size_t)n)) != SW_OK) {
            n = -1;
            break;
        }
    }
    sw_free(p);
    return n == 0 ? SW_OK : SW_ESYS;
}

static int check_bin(const struct sw_install_opts *o, bool *ret_changed, struct sw_err *err)
{
    const char *program = o->program ? o->program : "/proc/self/exe";
    SW_AUTO_FD from = open(program, O_RDONLY | O_CLOEXEC);
    SW_AUTO_FD to = -1;
    SW_ARENA_AUTO a = {0};
    const char *path = sw_arena_printf(&a, "%s/" SW_CNI_PLUGIN, o->bin_dir);
    const char *tmp = sw_arena_printf(&a, "%s/" TMP_BIN, o->bin_dir);

    if (from < 0)
        return sw_err_sys(err, errno, "cannot read '%s'", program);
    to = open(path, O_RDONLY | O_CLOEXEC);
    if (to >= 0 && same_content(from, to))
        return SW_OK;
    if (to >= 0)
        (void)close(to);
    *ret_changed = true;
    to = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    if (to < 0 || copy(from, to) != SW_OK || fchmod(to, 0755) != 0 || fsync(to) != 0 ||
        rename(tmp, path) != 0) {
        (void)sw_err_sys(err, errno, "cannot install '%s'", path);
        (void)unlink(tmp);
        return SW_ESYS;
    }
    sw_log_info("install", "plugin installed as '%s'", path);
    return SW_OK;
}

/* ---- watching ---- */

static void count_repair(struct sw_install *i)
{
    uint64_t now = sw_loop_now(i->loop);

    if (now - i->round_ns > FIGHT_S * SW_NS_PER_S) {
        i->round_ns = now;
        i->rounds = 0;
    }
    if (++i->rounds == FIGHT_ROUNDS)
        sw_log_warn("install",
                    "%d repairs within %d s: another component rewrites '%s' (with Cilium set "
                    "cni.exclusive=false)",
                    FIGHT_ROUNDS, FIGHT_S, i->o.conf_dir);
}

static void on_pace(struct sw_timer *t);

static void look(struct sw_install *i)
{
    struct sw_err err = {0};
    bool changed = false;
    /* The program first: an entry without it fails every pod of the node. */
    int rc = check_bin(&i->o, &changed, &err);

    if (rc == SW_OK)
        rc = check_conf(&i->o, &changed, &err);
    i->done = rc == SW_OK;
    if (changed)
        count_repair(i);
    if (rc == SW_ENOENT && !i->waited)
        sw_log_info("install", "%s; waiting for one", err.msg);
    else if (rc != SW_OK && rc != SW_ENOENT)
        sw_log_error("install", "%s; retrying in %d s", err.msg, FIGHT_S);
    i->waited = rc == SW_ENOENT;
    if (rc != SW_OK && rc != SW_ENOENT)
        sw_timer_start(i->loop, &i->pace, FIGHT_S * SW_NS_PER_S, on_pace);
}

static void on_pace(struct sw_timer *t)
{
    look(SW_CONTAINER_OF(t, struct sw_install, pace));
}

static void on_change(void *arg)
{
    struct sw_install *i = arg;
    /* Whoever rewrites the file as fast as we do is answered ever more slowly. */
    uint64_t delay_ms = PACE_MS << sw_min(i->rounds, FIGHT_ROUNDS);

    if (!sw_timer_running(&i->pace))
        sw_timer_start(i->loop, &i->pace, delay_ms * SW_NS_PER_MS, on_pace);
}

static struct sw_filewatch *watch_dir(struct sw_install *i, const char *dir, struct sw_err *err)
{
    char *path SW_AUTO_FREE = sw_asprintf("%s/", dir);

    return sw_filewatch_new(i->loop, path, on_change, i, err);
}

struct sw_install *sw_install_new(struct sw_loop *l, const struct sw_install_opts *o,
                                  struct sw_err *err)
{
    struct sw_install *i = SW_NEW(struct sw_install);

    i->o = *o;
    i->loop = l;
    i->conf = watch_dir(i, o->conf_dir, err);
    i->bin = i->conf ? watch_dir(i, o->bin_dir, err) : NULL;
    if (!i->bin) {
        sw_install_free(i);
        return NULL;
    }
    look(i);
    return i;
}

void sw_install_free(struct sw_install *i)
{
    if (!i)
        return;
    sw_timer_stop(i->loop, &i->pace);
    sw_filewatch_free(i->conf);
    sw_filewatch_free(i->bin);
    sw_free(i);
}

bool sw_install_done(const struct sw_install *i)
{
    return i->done;
}

/* ---- removal ---- */

static int clean_file(const char *path, struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice text = {0};
    struct sw_slice now;
    struct stat st;
    bool found = false;
    int rc = SW_OK;

    if (stat(path, &st) != 0 || sw_file_read(path, SW_CONFLIST_MAX, &text, NULL) != SW_OK)
        return SW_OK;
    if (sw_conflist_remove(&a, text, SW_CNI_PLUGIN, &now, &found, NULL) == SW_OK && found)
        rc = sw_file_write(path, now, st.st_mode & 0777, true, err);
    sw_slice_free(&text);
    return rc;
}

/* What an agent that was killed had begun to write. */
static void remove_halves(const struct sw_install_opts *o)
{
    char *bin SW_AUTO_FREE = join(o->bin_dir, TMP_BIN);

    (void)unlink(bin);
    sw_file_remove_temporary(o->conf_dir);
}

int sw_install_remove(const struct sw_install_opts *o, struct sw_err *err)
{
    struct names all = {0};
    char *bin SW_AUTO_FREE = join(o->bin_dir, SW_CNI_PLUGIN);
    int rc = SW_OK;

    remove_halves(o);
    list_files(o->conf_dir, &all);
    SW_VEC_FOREACH (char *, it, &all.v) {
        char *path SW_AUTO_FREE = join(o->conf_dir, *it);
        int one = clean_file(path, rc == SW_OK ? err : NULL);

        rc = rc == SW_OK ? one : rc;
    }
    names_done(&all);
    if (unlink(bin) != 0 && errno != ENOENT && rc == SW_OK)
        rc = sw_err_sys(err, errno, "cannot remove '%s'", bin);
    return rc;
}
