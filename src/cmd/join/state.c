/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/join/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/dirs.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/secret.h"
#include "identity/fabric.h"
#include "identity/join/token.h"
#include "tls/cert/cred.h"
#include "tls/cert/csr.h"
#include "tls/cert/pemfile.h"

#define CSR        "machine.csr"
#define TOKEN      "token"
#define KUBECONFIG "kubeconfig"
#define XDS_CA     "xds-ca.pem"
/* In the request, where it is not read: the control plane decides the identity. */
#define ANYBODY "spiffe://machine.invalid/ns/none/sa/none"

enum { FILE_MAX = 64 << 10, BUNDLE_MAX = 1 << 20 };

int sw_machine_default_dir(struct sw_arena *a, const char **ret, struct sw_err *err)
{
    const char *xdg = getenv("XDG_STATE_HOME"); /* NOLINT(concurrency-mt-unsafe) */
    const char *home = getenv("HOME");          /* NOLINT(concurrency-mt-unsafe) */

    if (geteuid() == 0)
        *ret = "/var/lib/spanwire/machine";
    else if (xdg && xdg[0] == '/')
        *ret = sw_arena_printf(a, "%s/spanwire/machine", xdg);
    else if (home && home[0] == '/')
        *ret = sw_arena_printf(a, "%s/.local/state/spanwire/machine", home);
    else
        return sw_err_set(err, SW_EINVAL, "there is no home directory: --state is needed");
    return SW_OK;
}

const char *sw_machine_path(struct sw_arena *a, const char *dir, const char *file)
{
    return sw_arena_printf(a, "%s/%s", dir, file);
}

/* ---- reading ---- */

static const char *text_of(struct sw_arena *a, const struct sw_json *o, const char *key)
{
    struct sw_slice s = sw_json_str(sw_json_find(o, key));

    return sw_arena_dup(a, s.p ? s : sw_slice("", 0));
}

int sw_machine_load(struct sw_arena *a, const char *dir, struct sw_machine *ret, struct sw_err *err)
{
    static const struct sw_json_opts bounds = {
        .max_bytes = FILE_MAX, .max_nodes = 256, .max_depth = 8};
    const char *path = sw_machine_path(a, dir, SW_MACHINE_FILE);
    struct sw_machine m = {0};
    struct sw_slice text = {0};
    struct sw_json *o = NULL;
    int rc = sw_file_read(path, FILE_MAX, &text, err);

    if (rc == SW_OK)
        rc = sw_json_parse(a, text, &bounds, &o, err);
    sw_slice_free(&text);
    if (rc != SW_OK)
        return rc == SW_ENOENT ? rc : sw_err_prefix(err, "%s", path);
    if (!sw_join_kind_parse(sw_json_str(sw_json_find(o, "kind")), &m.kind))
        return sw_err_set(err, SW_EINVAL, "%s: the kind is not known", path);
    m.id = text_of(a, o, "id");
    m.ns = text_of(a, o, "namespace");
    m.name = text_of(a, o, "name");
    m.account = text_of(a, o, "serviceAccount");
    m.trust_domain = text_of(a, o, "trustDomain");
    m.cluster = text_of(a, o, "cluster");
    m.network = text_of(a, o, "network");
    m.address = text_of(a, o, "address");
    m.join_address = text_of(a, o, "joinAddress");
    m.xds_address = text_of(a, o, "xdsAddress");
    *ret = m;
    return SW_OK;
}

/* ---- writing ---- */

static int write_file(const char *dir, const char *name, struct sw_slice text, struct sw_err *err)
{
    char *path SW_AUTO_FREE = sw_asprintf("%s/%s", dir, name);

    return sw_file_write(path, text, 0600, true, err);
}

static int check_dir(const char *dir, struct sw_err *err)
{
    struct stat st;
    int rc = sw_make_dirs(dir, err);

    if (rc != SW_OK)
        return rc;
    if (stat(dir, &st) != 0)
        return sw_err_sys(err, errno, "%s", dir);
    if (st.st_uid != geteuid() || (st.st_mode & 077))
        return sw_err_set(err, SW_EINVAL,
                          "%s is not ours alone: it must have our owner and mode 0700", dir);
    return SW_OK;
}

static int make_key(const char *dir, struct sw_err *err)
{
    SW_BUF_AUTO csr = {.max = FILE_MAX};
    SW_BUF_SECRET key = {.max = FILE_MAX};
    int rc = sw_csr_new(SW_SLICE_LIT(ANYBODY), &csr, &key, err);

    if (rc == SW_OK)
        rc = write_file(dir, SW_MACHINE_KEY, sw_buf_slice(&key), err);
    if (rc == SW_OK)
        rc = write_file(dir, CSR, sw_buf_slice(&csr), err);
    return rc;
}

/* While the key is made: runs of one code at the same time are one machine. */
static int lock_dir(const char *dir, int *ret_fd, struct sw_err *err)
{
    *ret_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_fd < 0 || flock(*ret_fd, LOCK_EX) != 0)
        return sw_err_sys(err, errno, "cannot lock '%s'", dir);
    return SW_OK;
}

int sw_machine_begin(const char *dir, struct sw_buf *ret_csr, struct sw_err *err)
{
    char *path SW_AUTO_FREE = sw_asprintf("%s/" CSR, dir);
    SW_AUTO_FD lock = -1;
    int rc = check_dir(dir, err);

    if (rc == SW_OK)
        rc = lock_dir(dir, &lock, err);
    if (rc == SW_OK && access(path, F_OK) != 0)
        rc = make_key(dir, err); /* the request is written last */
    return rc == SW_OK ? sw_pemfile_read(path, ret_csr, err) : rc;
}

static int write_kubeconfig(const char *dir, const struct sw_join_bundle *b, struct sw_err *err)
{
    SW_BUF_AUTO out = {.max = BUNDLE_MAX};
    int rc = sw_buf_printf(&out,
                           "apiVersion: v1\nkind: Config\nclusters:\n- name: spanwire\n  cluster:\n"
                           "    server: %.*s\n",
                           SW_SLICE_ARG(b->server));

    if (rc == SW_OK && b->ca.n)
        rc = sw_buf_append_str(&out, "    certificate-authority-data: ");
    if (rc == SW_OK && b->ca.n)
        rc = sw_base64_append(&out, b->ca);
    if (rc == SW_OK)
        rc = sw_buf_printf(&out,
                           "\nusers:\n- name: machine\n  user:\n    tokenFile: " TOKEN "\n"
                           "contexts:\n- name: spanwire\n  context:\n    cluster: spanwire\n"
                           "    user: machine\n    namespace: %.*s\n"
                           "current-context: spanwire\n",
                           SW_SLICE_ARG(b->ns));
    if (rc != SW_OK)
        return sw_err_set(err, SW_ELIMIT, "the kubeconfig is too large");
    rc = write_file(dir, TOKEN, b->token, err);
    return rc == SW_OK ? write_file(dir, KUBECONFIG, sw_buf_slice(&out), err) : rc;
}

/* A directory for --link-fabric: the certificate comes last, with it the others are there. */
static int write_peer(const char *dir, const struct sw_join_bundle *b, struct sw_err *err)
{
    char *path SW_AUTO_FREE = sw_asprintf("%s/" SW_MACHINE_KEY, dir);
    SW_BUF_SECRET key = {.max = FILE_MAX};
    int rc = sw_pemfile_read(path, &key, err);

    if (rc == SW_OK)
        rc = write_file(dir, SW_FABRIC_KEY, sw_buf_slice(&key), err);
    if (rc == SW_OK)
        rc = write_file(dir, SW_FABRIC_CA, b->peer_roots, err);
    if (rc == SW_OK)
        rc = write_file(dir, SW_FABRIC_CERT, b->certificate, err);
    return rc;
}

static int write_role(const char *dir, const struct sw_join_bundle *b, struct sw_err *err)
{
    int rc = SW_OK;

    switch (b->kind) {
    case SW_JOIN_NODE:
        break;
    case SW_JOIN_GATEWAY:
        rc = write_file(dir, XDS_CA, b->xds_ca, err);
        if (rc == SW_OK)
            rc = write_kubeconfig(dir, b, err);
        break;
    case SW_JOIN_DEVICE:
        rc = write_kubeconfig(dir, b, err);
        break;
    case SW_JOIN_PEER:
        rc = write_peer(dir, b, err);
        break;
    }
    return rc;
}

static int write_machine(const char *dir, const char *id, const char *address,
                         const struct sw_join_bundle *b, struct sw_err *err)
{
    SW_BUF_AUTO out = {.max = FILE_MAX};
    struct sw_jw w;

    sw_jw_begin(&w, &out, NULL);
    sw_jw_object(&w);
    sw_jw_put_str(&w, "kind", sw_join_kind_name(b->kind));
    sw_jw_put_str(&w, "id", id);
    sw_jw_put_string(&w, "namespace", b->ns);
    sw_jw_put_string(&w, "name", b->name);
    sw_jw_put_string(&w, "serviceAccount", b->account);
    sw_jw_put_string(&w, "trustDomain", b->trust_domain);
    sw_jw_put_string(&w, "cluster", b->cluster);
    sw_jw_put_string(&w, "network", b->network);
    sw_jw_put_string(&w, "address", b->address);
    sw_jw_put_str(&w, "joinAddress", address);
    sw_jw_put_string(&w, "xdsAddress", b->xds_address);
    sw_jw_name(&w, "gateways");
    sw_jw_array(&w);
    for (size_t i = 0; i < b->gateways.n; i++)
        sw_jw_string(&w, b->gateways.at[i]);
    sw_jw_array_end(&w);
    sw_jw_object_end(&w);
    if (sw_jw_end(&w) != SW_OK)
        return sw_err_set(err, SW_ELIMIT, "the answer is too large");
    return write_file(dir, SW_MACHINE_FILE, sw_buf_slice(&out), err);
}

int sw_machine_save(const char *dir, const char *id, const char *address,
                    const struct sw_join_bundle *b, struct sw_err *err)
{
    int rc = write_file(dir, SW_MACHINE_ROOTS, b->roots, err);

    if (rc == SW_OK)
        rc = write_role(dir, b, err);
    return rc == SW_OK ? write_machine(dir, id, address, b, err) : rc;
}

/* ---- the control plane ---- */

/* The token is wiped by whoever made the buffer. */
static int reach(struct sw_arena *a, const char *dir, const struct sw_machine *m,
                 struct sw_buf *token, struct sw_join_at *ret, struct sw_err *err)
{
    struct sw_slice roots = {0};
    int rc = sw_file_read(sw_machine_path(a, dir, SW_MACHINE_ROOTS), SW_TLS_PEM_MAX, &roots, err);

    if (rc == SW_OK)
        rc = sw_machine_token(dir, token, err);
    if (rc == SW_OK)
        *ret = (struct sw_join_at){.address = sw_slice_str(m->join_address),
                                   .roots = sw_arena_slice(a, roots),
                                   .token = sw_buf_slice(token)};
    sw_slice_free(&roots);
    return rc;
}

int sw_machine_renew(struct sw_arena *a, const char *dir, const struct sw_machine *m,
                     uint64_t patience_ns, struct sw_join_bundle *ret, struct sw_err *err)
{
    SW_BUF_SECRET token = {.max = SW_MACHINE_TOKEN_MAX};
    SW_BUF_AUTO csr = {.max = FILE_MAX};
    struct sw_join_self self = {.gateways = m->gateways};
    struct sw_join_bundle b;
    struct sw_join_at at;
    int rc = reach(a, dir, m, &token, &at, err);

    if (rc == SW_OK && m->kind == SW_JOIN_PEER)
        rc = sw_machine_begin(dir, &csr, err);
    self.csr = sw_buf_slice(&csr);
    if (rc == SW_OK)
        rc = sw_join_renew(&at, m->kind == SW_JOIN_PEER ? &self : NULL, patience_ns, a, &b, err);
    if (rc == SW_OK)
        rc = sw_machine_save(dir, m->id, m->join_address, &b, err);
    if (rc == SW_OK)
        *ret = b;
    return rc;
}

struct sw_join_renewal *sw_machine_renewal_start(struct sw_loop *l, const char *dir,
                                                 const struct sw_machine *m,
                                                 sw_join_renewal_cb done, void *arg,
                                                 struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_SECRET token = {.max = SW_MACHINE_TOKEN_MAX};
    SW_BUF_AUTO csr = {.max = FILE_MAX};
    struct sw_join_renewal *r = NULL;
    struct sw_join_at at;
    int rc = reach(&a, dir, m, &token, &at, err);

    if (rc == SW_OK)
        rc = sw_machine_begin(dir, &csr, err);
    if (rc == SW_OK)
        r = sw_join_renewal_start(l, &at, &(struct sw_join_self){.csr = sw_buf_slice(&csr)}, done,
                                  arg, err);
    return r;
}

int sw_machine_leave(struct sw_arena *a, const char *dir, const struct sw_machine *m,
                     uint64_t patience_ns, struct sw_err *err)
{
    SW_BUF_SECRET token = {.max = SW_MACHINE_TOKEN_MAX};
    struct sw_join_at at;
    int rc = reach(a, dir, m, &token, &at, err);

    if (rc == SW_OK)
        rc = sw_join_leave(&at, patience_ns, err);
    return rc;
}

int sw_machine_lock_run(const char *dir, int *ret_fd, struct sw_err *err)
{
    char *run SW_AUTO_FREE = sw_asprintf("%s/run", dir);
    SW_AUTO_FD fd = -1;
    int rc = sw_make_dirs(run, err);

    if (rc != SW_OK)
        return rc;
    fd = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return sw_err_sys(err, errno, "%.120s", run);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return sw_err_set(err, SW_EDENIED,
                          "another 'spanwire join' runs with the state in %.100s: end it first",
                          dir);
    *ret_fd = SW_TAKE_FD(fd);
    return SW_OK;
}

void sw_machine_forget(const char *dir)
{
    static const char *const files[] = {SW_MACHINE_FILE,
                                        SW_MACHINE_KEY,
                                        CSR,
                                        SW_MACHINE_ROOTS,
                                        TOKEN,
                                        KUBECONFIG,
                                        XDS_CA,
                                        SW_FABRIC_CERT,
                                        SW_FABRIC_CA,
                                        SW_FABRIC_KEY,
                                        SW_MACHINE_PEER,
                                        "run/mesh.state",
                                        "run/mesh.state.new"};

    for (size_t i = 0; i < SW_ARRAY_LEN(files); i++) {
        char *path SW_AUTO_FREE = sw_asprintf("%s/%s", dir, files[i]);

        (void)unlink(path);
    }
    sw_file_remove_temporary(dir); /* keys among them, of runs that were killed */
}
