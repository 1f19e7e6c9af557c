/* SPDX-License-Identifier: Apache-2.0 */
/* The material of a CA as files of a directory. */
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/dirs.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/secret.h"
#include "identity/material.h"
#include "tls/cert/ca.h"
#include "tls/cert/pemfile.h"

#define CRL_FILE "ca-crl.pem"

static const struct layout {
    const char *names[SW_CA_PARTS]; /* NULL: this form has no such part */
    bool own;
} layouts[] = {
    {.names = {[SW_CA_CERT] = "ca-cert.pem",
               [SW_CA_KEY] = "ca-key.pem",
               [SW_CA_CHAIN] = "cert-chain.pem",
               [SW_CA_ROOTS] = "root-cert.pem",
               [SW_CA_CRL] = CRL_FILE}},
    {.names = {[SW_CA_CERT] = "tls.crt",
               [SW_CA_KEY] = "tls.key",
               [SW_CA_ROOTS] = "ca.crt",
               [SW_CA_CRL] = CRL_FILE}},
    {.names = {[SW_CA_CERT] = SW_CA_ROOT_CERT,
               [SW_CA_KEY] = SW_CA_ROOT_KEY,
               [SW_CA_ROOTS] = "roots.pem",
               [SW_CA_CRL] = CRL_FILE,
               [SW_CA_NEXT_CERT] = "next.crt",
               [SW_CA_NEXT_KEY] = "next.key",
               [SW_CA_PREVIOUS] = "previous.crt"},
     .own = true},
};

enum { OWN_LAYOUT = SW_ARRAY_LEN(layouts) - 1 };

/* --- reading --- */

/* A file of the directory in the arena; empty and SW_ENOENT when it is not there. */
static int read_file(struct sw_arena *a, const char *dir, const char *name, struct sw_slice *ret,
                     struct sw_err *err)
{
    char *path SW_AUTO_FREE = sw_asprintf("%s/%s", dir, name);
    SW_BUF_SECRET text = {.max = SW_CA_PEM_MAX};
    int rc = sw_pemfile_read(path, &text, err);

    *ret = rc == SW_OK ? sw_arena_slice(a, sw_buf_slice(&text)) : sw_slice("", 0);
    return rc;
}

static bool has_file(const char *dir, const char *name)
{
    char *path SW_AUTO_FREE = sw_asprintf("%s/%s", dir, name);

    return access(path, F_OK) == 0;
}

static bool is_needed(const struct layout *l, size_t part)
{
    return part == SW_CA_CERT || part == SW_CA_KEY ||
           (!l->own && (part == SW_CA_CHAIN || part == SW_CA_ROOTS));
}

/*
 * A switch to the next root that was interrupted: its key is in place already, or its certificate
 * has just not been removed from where it waited.
 */
static void complete_switch(struct sw_ca_material *m)
{
    if (m->part[SW_CA_NEXT_CERT].n == 0 || m->part[SW_CA_NEXT_KEY].n == 0) {
        m->part[SW_CA_NEXT_CERT] = m->part[SW_CA_NEXT_KEY] = sw_slice("", 0);
    } else if (sw_slice_eq(m->part[SW_CA_KEY], m->part[SW_CA_NEXT_KEY])) {
        m->part[SW_CA_CERT] = m->part[SW_CA_NEXT_CERT];
        m->part[SW_CA_NEXT_CERT] = m->part[SW_CA_NEXT_KEY] = sw_slice("", 0);
    }
}

static int read_layout(struct sw_arena *a, const char *dir, const struct layout *l,
                       struct sw_ca_material *ret, struct sw_err *err)
{
    struct sw_ca_material m = {.own = l->own};

    for (size_t i = 0; i < SW_CA_PARTS; i++) {
        int rc = l->names[i] ? read_file(a, dir, l->names[i], &m.part[i], err) : SW_OK;

        if (rc == SW_ENOENT && !is_needed(l, i))
            continue;
        if (rc != SW_OK) /* part of one is there: that is not the same as no CA */
            return rc == SW_ENOENT ? sw_err_set(err, SW_EINVAL, "'%s' is missing", l->names[i])
                                   : rc;
    }
    complete_switch(&m);
    *ret = m;
    return SW_OK;
}

int sw_ca_material_read(struct sw_arena *a, const char *dir, struct sw_ca_material *ret,
                        struct sw_err *err)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(layouts); i++) {
        const struct layout *l = &layouts[i];

        if (has_file(dir, l->names[SW_CA_CERT]) || has_file(dir, l->names[SW_CA_KEY]))
            return read_layout(a, dir, l, ret, err);
    }
    return sw_err_set(err, SW_ENOENT, "no CA in '%s'", dir);
}

/* --- writing --- */

static int put_part(const char *dir, const struct sw_ca_material *m, enum sw_ca_part part,
                    struct sw_err *err)
{
    char *path SW_AUTO_FREE = sw_asprintf("%s/%s", dir, layouts[OWN_LAYOUT].names[part]);
    bool key = part == SW_CA_KEY || part == SW_CA_NEXT_KEY;

    if (m->part[part].n)
        return sw_file_write(path, m->part[part], key ? 0600 : 0644, true, err);
    return unlink(path) == 0 || errno == ENOENT
               ? SW_OK
               : sw_err_sys(err, errno, "cannot remove '%s'", path);
}

int sw_ca_material_write(const char *dir, const struct sw_ca_material *old,
                         const struct sw_ca_material *now, struct sw_err *err)
{
    /*
     * The old root is kept before it is replaced; a key without its certificate is completed when
     * it is read, from the next one, which therefore goes last.
     */
    static const enum sw_ca_part order[] = {SW_CA_PREVIOUS, SW_CA_ROOTS,    SW_CA_KEY,
                                            SW_CA_CERT,     SW_CA_NEXT_KEY, SW_CA_NEXT_CERT};
    int rc = sw_make_dirs(dir, err);

    for (size_t i = 0; i < SW_ARRAY_LEN(order) && rc == SW_OK; i++) {
        if (!sw_slice_eq(old->part[order[i]], now->part[order[i]]))
            rc = put_part(dir, now, order[i], err);
    }
    return rc;
}
