/* SPDX-License-Identifier: Apache-2.0 */
/* Each kind in a child of its own, since nothing of it can be taken back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/def.h"
#include "io/sandbox.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Exit statuses of the child: what did not hold. */
enum fault {
    GOOD,
    NOT_ENTERED,
    GAINS_PRIVILEGES,
    IS_READABLE,
    NO_THREAD,
    NO_SOCKET,
    EXECUTES,
    FORKS,
    NO_FORK,
    TRACES,
    UNSHARES,
    ENTERS,
    DOES_NOT_ENTER,
    MOUNTS,
    CHANGES_USER,
    LOADS_BPF,
};

static void *thread(void *arg)
{
    return arg;
}

static bool refused(long rc)
{
    return rc == -1 && errno == EPERM;
}

/* As vfork and posix_spawn do it. */
static pid_t fork_by_clone(void)
{
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid == 0)
        _exit(0);
    return pid;
}

static enum fault what_fails(enum sw_sandbox kind)
{
    bool starts = kind == SW_SANDBOX_SUPERVISOR || kind == SW_SANDBOX_AGENT;
    bool enters = kind == SW_SANDBOX_NODE || kind == SW_SANDBOX_AGENT;
    char *argv[] = {(char[]){"/bin/true"}, NULL};
    pthread_t t;
    void *ret;

    if (sw_sandbox_enter(kind, NULL) != SW_OK)
        return NOT_ENTERED;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return GAINS_PRIVILEGES;
    if (!SANITIZED && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
        return IS_READABLE;
    if (pthread_create(&t, NULL, thread, argv) != 0 || pthread_join(t, &ret) != 0 || ret != argv)
        return NO_THREAD;
    if (socket(AF_INET, SOCK_STREAM, 0) < 0)
        return NO_SOCKET;
    if (starts && fork_by_clone() < 0)
        return NO_FORK;
    if (!starts && !SANITIZED && (!refused(fork_by_clone()) || fork() != -1))
        return FORKS;
    if (!SANITIZED && !refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL)))
        return TRACES;
    if (!refused(unshare(CLONE_FILES)))
        return UNSHARES;
    /* Descriptor -1 is looked at only when the call is let through. */
    if (!enters && !refused(setns(-1, CLONE_NEWNET)))
        return ENTERS;
    if (enters && (setns(-1, CLONE_NEWNET) != -1 || errno != EBADF))
        return DOES_NOT_ENTER;
    if (!refused(syscall(SYS_mount, NULL, NULL, NULL, 0, NULL)))
        return MOUNTS;
    if (!refused(setresuid(getuid(), getuid(), getuid())))
        return CHANGES_USER;
    if (!refused(syscall(SYS_bpf, 0, NULL, 0)))
        return LOADS_BPF;
    if (starts) {
        (void)execv(argv[0], argv);
        return EXECUTES;
    }
    return refused(execv(argv[0], argv)) ? GOOD : EXECUTES;
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NO_THREADS_AFTER_FORK 1
#endif
#endif

static void expect(enum sw_sandbox kind, bool off)
{
#ifdef NO_THREADS_AFTER_FORK
    skip(); /* ThreadSanitizer ends a child that starts a thread */
#endif
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        if (off &&
            (setenv("SPANWIRE_SANDBOX", "off", 1) != 0 || sw_sandbox_enter(kind, NULL) != SW_OK))
            _exit(NOT_ENTERED);
        _exit(off ? prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) : (int)what_fails(kind));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), GOOD);
}

static void a_role_gives_up_what_it_does_not_need(void **state)
{
    (void)state;
    expect(SW_SANDBOX_ROLE, false);
}

static void the_node_enters_namespaces(void **state)
{
    (void)state;
    expect(SW_SANDBOX_NODE, false);
}

static void a_supervisor_starts_programs(void **state)
{
    (void)state;
    expect(SW_SANDBOX_SUPERVISOR, false);
}

static void an_agent_starts_programs_in_namespaces(void **state)
{
    (void)state;
    expect(SW_SANDBOX_AGENT, false);
}

static void it_can_be_switched_off(void **state)
{
    (void)state;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 0)
        skip();
    expect(SW_SANDBOX_ROLE, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_role_gives_up_what_it_does_not_need),
        cmocka_unit_test(the_node_enters_namespaces),
        cmocka_unit_test(a_supervisor_starts_programs),
        cmocka_unit_test(an_agent_starts_programs_in_namespaces),
        cmocka_unit_test(it_can_be_switched_off),
    };

    return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
