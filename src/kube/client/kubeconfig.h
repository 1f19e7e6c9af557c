/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How to reach a Kubernetes API and the credentials for it: from kubeconfig files, or from the
 * service account files of a pod. What we cannot do (exec plugins, proxies) is refused here, with
 * its name, and not found out later by a connection that goes elsewhere.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/def.h"
#include "base/err.h"
#include "base/slice.h"

enum {
    SW_KUBECONFIG_MAX = 4 << 20, /* bytes of one file */
    SW_KUBECONFIG_FILES = 32,    /* files in one search */
    SW_KUBE_FILE_MAX = 1 << 20,  /* bytes of a certificate, key or token file */
    SW_KUBE_AS_GROUPS_MAX = 64,
};

#define SW_KUBE_IN_CLUSTER_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* Content, or the file that holds it (read again when it changes); both empty: none. */
struct sw_kube_blob {
    struct sw_slice data; /* wins, but for tokens */
    const char *file;
};

/* Everything lives in the arena. */
struct sw_kube_config {
    struct sw_arena arena;
    bool tls;
    struct sw_slice host; /* without brackets */
    uint16_t port;
    struct sw_slice base;     /* path in front of all others, "" or "/a/b" */
    struct sw_slice tls_name; /* other name to expect in the certificate; empty: the host's */
    bool insecure;            /* insecure-skip-tls-verify */
    struct sw_kube_blob ca;   /* neither: the system's roots */
    struct sw_kube_blob cert;
    struct sw_kube_blob key;
    struct sw_kube_blob token; /* the file wins: it is renewed */
    struct sw_slice username;  /* basic authentication, p == NULL: none */
    struct sw_slice password;
    struct sw_slice as_user; /* impersonation, empty: none */
    struct sw_slice as_uid;
    struct sw_slice as_groups[SW_KUBE_AS_GROUPS_MAX];
    size_t n_as_groups;
    struct sw_slice ns; /* of the context, "default" when it names none */
};

/* One kubeconfig text. */
struct sw_kubeconfig_src {
    struct sw_slice text;
    const char *name; /* for messages */
    const char *dir;  /* relative file names count from here */
};

/*
 * Reads the context (NULL: the current one) out of one or more kubeconfigs; where several have an
 * entry of the same name the first wins. No file is opened. Unknown fields are passed over, those
 * that would change where or as whom we connect are refused: exec, auth-provider, proxy-url,
 * as-user-extra.
 *
 * Returns SW_OK (ret is the caller's: sw_kube_config_done), or SW_EINVAL, SW_ENOENT (no such
 * context, cluster or user), SW_ELIMIT with a message that names the source.
 */
SW_NODISCARD int sw_kubeconfig_read(const struct sw_kubeconfig_src *srcs, size_t n,
                                    const char *context, struct sw_kube_config *ret,
                                    struct sw_err *err);

/*
 * The same from files, separated by ':' as in $KUBECONFIG. Missing ones are passed over as long as
 * one is there.
 */
SW_NODISCARD int sw_kubeconfig_load(const char *paths, const char *context,
                                    struct sw_kube_config *ret, struct sw_err *err);

/* From a pod's environment and its service account in dir (NULL: SW_KUBE_IN_CLUSTER_DIR). */
SW_NODISCARD int sw_kube_config_in_cluster(const char *dir, struct sw_kube_config *ret,
                                           struct sw_err *err);

/*
 * The usual search: the path given (may be NULL), $KUBECONFIG, inside a pod its service account,
 * ~/.kube/config.
 */
SW_NODISCARD int sw_kube_config_find(const char *path, const char *context,
                                     struct sw_kube_config *ret, struct sw_err *err);

void sw_kube_config_done(struct sw_kube_config *c);

/*
 * "https://host:port/base": fills tls, host, port and base, in the arena. Refuses other schemes,
 * user names, queries and fragments with SW_EINVAL.
 */
SW_NODISCARD int sw_kube_server_parse(struct sw_kube_config *c, struct sw_slice url,
                                      struct sw_err *err);
