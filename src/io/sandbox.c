/* SPDX-License-Identifier: Apache-2.0 */
#include "io/sandbox.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/def.h"

#if defined(__x86_64__)
#define NATIVE    AUDIT_ARCH_X86_64
#define OTHER_ABI 0x40000000u /* x32: the same architecture, other numbers */
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#endif

/* Leak detection stops the world by a process of its own and ptrace. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#ifdef NATIVE

enum who {
    ROLES = 1 << SW_SANDBOX_ROLE | 1 << SW_SANDBOX_NODE,
    STARTERS = 1 << SW_SANDBOX_SUPERVISOR | 1 << SW_SANDBOX_AGENT,
    ANY = ROLES | STARTERS,
    STAYS = 1 << SW_SANDBOX_ROLE | 1 << SW_SANDBOX_SUPERVISOR,
};

/* Refused with EPERM. Absent on an architecture: its number is not defined. */
static const struct refused {
    int number;
    unsigned who;
} refused[] = {
    /* other programs; forks are judged by their flags below */
    {__NR_execve, ROLES},
    {__NR_execveat, ROLES},
    /* other processes */
    {__NR_ptrace, SANITIZED ? 0 : ANY},
    {__NR_process_vm_readv, ANY},
    {__NR_process_vm_writev, ANY},
    {__NR_pidfd_getfd, ANY},
    {__NR_kcmp, ANY},
    /* namespaces, mounts, roots; a supervisor's children inherit its filter */
    {__NR_setns, STAYS},
    {__NR_unshare, ANY},
    {__NR_mount, ANY},
    {__NR_umount2, ANY},
    {__NR_pivot_root, ANY},
    {__NR_chroot, ANY},
    {__NR_open_tree, ANY},
    {__NR_move_mount, ANY},
    {__NR_fsopen, ANY},
    {__NR_fsconfig, ANY},
    {__NR_fsmount, ANY},
    {__NR_fspick, ANY},
    {__NR_mount_setattr, ANY},
    {__NR_name_to_handle_at, ANY},
    {__NR_open_by_handle_at, ANY},
    /* the kernel and the machine */
    {__NR_bpf, ANY},
    {__NR_perf_event_open, ANY},
    {__NR_userfaultfd, ANY},
    {__NR_init_module, ANY},
    {__NR_finit_module, ANY},
    {__NR_delete_module, ANY},
    {__NR_kexec_load, ANY},
#ifdef __NR_kexec_file_load
    {__NR_kexec_file_load, ANY},
#endif
    {__NR_reboot, ANY},
    {__NR_swapon, ANY},
    {__NR_swapoff, ANY},
    {__NR_syslog, ANY},
    {__NR_acct, ANY},
    {__NR_quotactl, ANY},
    {__NR_quotactl_fd, ANY},
    {__NR_fanotify_init, ANY},
    {__NR_lookup_dcookie, ANY},
    {__NR_nfsservctl, ANY},
    {__NR_vhangup, ANY},
    {__NR_sethostname, ANY},
    {__NR_setdomainname, ANY},
    {__NR_settimeofday, ANY},
    {__NR_clock_settime, ANY},
    {__NR_clock_adjtime, ANY},
    {__NR_adjtimex, ANY},
#ifdef __NR_iopl
    {__NR_iopl, ANY},
    {__NR_ioperm, ANY},
#endif
#ifdef __NR_modify_ldt
    {__NR_modify_ldt, ANY},
#endif
    /* keys, memory policies, personalities: nothing here uses them */
    {__NR_add_key, ANY},
    {__NR_request_key, ANY},
    {__NR_keyctl, ANY},
    {__NR_mbind, ANY},
    {__NR_set_mempolicy, ANY},
    {__NR_migrate_pages, ANY},
    {__NR_move_pages, ANY},
    /* changing credentials */
    {__NR_setuid, ANY},
    {__NR_setgid, ANY},
    {__NR_setreuid, ANY},
    {__NR_setregid, ANY},
    {__NR_setresuid, ANY},
    {__NR_setresgid, ANY},
    {__NR_setgroups, ANY},
    {__NR_setfsuid, ANY},
    {__NR_setfsgid, ANY},
    {__NR_capset, ANY},
#ifdef __NR_fork
    {__NR_fork, SANITIZED ? 0 : ROLES},
    {__NR_vfork, SANITIZED ? 0 : ROLES},
#endif
};

enum { FIXED = 16, PER_CALL = 2, PROGRAM = FIXED + PER_CALL * (int)SW_ARRAY_LEN(refused) };

struct program {
    struct sock_filter code[PROGRAM];
    unsigned short n;
};

static void add(struct program *p, uint16_t op, uint32_t k, uint8_t yes, uint8_t no)
{
    p->code[p->n++] = (struct sock_filter){.code = op, .jt = yes, .jf = no, .k = k};
}

static void answer(struct program *p, uint32_t what)
{
    add(p, BPF_RET | BPF_K, what, 0, 0);
}

static void load(struct program *p, size_t offset)
{
    add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* Everything but the forks is judged by its number alone: the kernel keeps such answers in a table.
 */
static void build(struct program *p, enum sw_sandbox kind)
{
    const uint32_t no = SECCOMP_RET_ERRNO | EPERM;

    load(p, offsetof(struct seccomp_data, arch));
    add(p, BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0);
    answer(p, SECCOMP_RET_KILL_PROCESS); /* numbers that mean something else */
    load(p, offsetof(struct seccomp_data, nr));
#ifdef OTHER_ABI
    add(p, BPF_JMP | BPF_JGE | BPF_K, OTHER_ABI, 0, 1);
    answer(p, SECCOMP_RET_KILL_PROCESS);
#endif
    for (size_t i = 0; i < SW_ARRAY_LEN(refused); i++) {
        if (!(refused[i].who & 1u << kind))
            continue;
        add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)refused[i].number, 0, 1);
        answer(p, no);
    }
    if (!(STARTERS & 1u << kind) && !SANITIZED) {
        /* Its flags are behind a pointer; the C library then uses clone. */
        add(p, BPF_JMP | BPF_JEQ | BPF_K, __NR_clone3, 0, 1);
        answer(p, SECCOMP_RET_ERRNO | ENOSYS);
        add(p, BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 0, 3);
        load(p, offsetof(struct seccomp_data, args[0]));
        add(p, BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0);
        answer(p, no);
    }
    answer(p, SECCOMP_RET_ALLOW);
}

static int filter_calls(enum sw_sandbox kind, struct sw_err *err)
{
    struct program p = {.n = 0};
    struct sock_fprog prog;

    build(&p, kind);
    prog = (struct sock_fprog){.len = p.n, .filter = p.code};
    /* SPEC_ALLOW: without it older kernels slow down every branch of the process. */
    if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &prog) != 0)
        return sw_err_sys(err, errno, "system calls are not filtered");
    return SW_OK;
}

#else

static int filter_calls(enum sw_sandbox kind, struct sw_err *err)
{
    return SW_OK; /* no list for this architecture */
}

#endif

int sw_sandbox_enter(enum sw_sandbox kind, struct sw_err *err)
{
    const char *wish = getenv("SPANWIRE_SANDBOX");

    if (kind == SW_SANDBOX_NONE || (wish && strcmp(wish, "off") == 0))
        return SW_OK;
    if (!SANITIZED && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        return sw_err_sys(err, errno, "the process stays readable by others of its user");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return sw_err_sys(err, errno, "new privileges stay possible");
    return filter_calls(kind, err);
}
