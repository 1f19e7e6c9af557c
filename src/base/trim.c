/* SPDX-License-Identifier: Apache-2.0 */
#include "base/trim.h"

#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int drop(struct dl_phdr_info *info, size_t size, void *arg)
{
    const char *part = *(const char **)arg;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

    if (part && (!info->dlpi_name || !strstr(info->dlpi_name, part)))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        uintptr_t from = (info->dlpi_addr + ph->p_vaddr) & ~(page - 1);
        uintptr_t to = info->dlpi_addr + ph->p_vaddr + ph->p_filesz;

        if (ph->p_type == PT_LOAD && !(ph->p_flags & PF_W))
            (void)madvise((void *)from, to - from, MADV_DONTNEED); /* best effort */
    }
    return 0;
}

void sw_trim_text(const char *part)
{
    (void)dl_iterate_phdr(drop, &part);
}

void sw_trim_heap(void)
{
    (void)malloc_trim(0);
}

void sw_trim_on_free(void)
{
    /* Naming either stops both from growing with the largest block that was ever freed. */
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 256 << 10);
}

void sw_trim_pages(void *p, size_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)p + page - 1) & ~(page - 1);
    uintptr_t to = ((uintptr_t)p + n) & ~(page - 1);

    if (from < to)
        (void)madvise((void *)from, to - from, MADV_DONTNEED); /* best effort */
}
