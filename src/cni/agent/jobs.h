/* SPDX-License-Identifier: Apache-2.0 */
/* Work that waits for other programs (nft, ip), done one after the other on a thread of its own. */
#pragma once

#include "base/err.h"
#include "cni/redirect.h"
#include "io/loop.h"

enum sw_job_kind {
    SW_JOB_APPLY,  /* redirection into the namespace */
    SW_JOB_REMOVE, /* and out of it */
    SW_JOB_CHECK,  /* is it there? */
    SW_JOB_NFT,    /* a script for nft */
};

struct sw_job;
typedef void (*sw_job_cb)(void *arg, int rc, const struct sw_err *err);

struct sw_job {
    enum sw_job_kind kind;
    int netns_fd;                /* borrowed for the call; -1: our own namespace (SW_JOB_NFT) */
    struct sw_redirect redirect; /* copied with its names */
    struct sw_slice script;      /* copied */
    sw_job_cb cb;                /* on the loop's thread, exactly once */
    void *arg;
};

struct sw_jobs;
/* NULL with SW_ESYS: no thread. */
SW_NODISCARD struct sw_jobs *sw_jobs_new(struct sw_loop *l, struct sw_err *err);
/* Finishes the job at hand; those that wait are called back with SW_ECANCELED when the loop goes.
 */
void sw_jobs_free(struct sw_jobs *j);
void sw_jobs_add(struct sw_jobs *j, const struct sw_job *job);
