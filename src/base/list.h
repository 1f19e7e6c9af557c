/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intrusive doubly linked list. The head is a struct sw_list of its own; a member that was
 * initialised or unlinked points to itself, so unlinking twice has no effect.
 */
#pragma once

#include <stdbool.h>

#include "base/def.h"

struct sw_list {
    struct sw_list *next;
    struct sw_list *prev;
};

static inline void sw_list_init(struct sw_list *l)
{
    l->next = l;
    l->prev = l;
}

static inline bool sw_list_empty(const struct sw_list *l)
{
    return l->next == l;
}

/* True while the member is in some list. */
static inline bool sw_list_linked(const struct sw_list *m)
{
    return m->next && m->next != m;
}

static inline void sw_list_insert_after(struct sw_list *at, struct sw_list *m)
{
    m->next = at->next;
    m->prev = at;
    at->next->prev = m;
    at->next = m;
}

static inline void sw_list_push_front(struct sw_list *l, struct sw_list *m)
{
    sw_list_insert_after(l, m);
}

static inline void sw_list_push_back(struct sw_list *l, struct sw_list *m)
{
    sw_list_insert_after(l->prev, m);
}

static inline void sw_list_unlink(struct sw_list *m)
{
    if (!m->next)
        return;
    m->next->prev = m->prev;
    m->prev->next = m->next;
    sw_list_init(m);
}

static inline struct sw_list *sw_list_pop_front(struct sw_list *l)
{
    struct sw_list *m = l->next;

    if (m == l)
        return NULL;
    sw_list_unlink(m);
    return m;
}

/* Moves everything from src to the end of dst. */
static inline void sw_list_splice(struct sw_list *dst, struct sw_list *src)
{
    if (sw_list_empty(src))
        return;
    src->next->prev = dst->prev;
    dst->prev->next = src->next;
    src->prev->next = dst;
    dst->prev = src->prev;
    sw_list_init(src);
}

/* The current member may be unlinked or freed in the body. */
#define SW_LIST_FOREACH(it, head)                                                                  \
    for (struct sw_list *it = (head)->next, *sw_next_##it = it->next; it != (head);                \
         it = sw_next_##it, sw_next_##it = it->next)

/* The object at a link of the list, NULL at the head. */
#define SW_LIST_AT(m, head, type, member)                                                          \
    ((m) == (head) ? NULL : SW_CONTAINER_OF((m), type, member))

/* The object at the front, NULL when there is none. */
#define SW_LIST_FIRST(head, type, member) SW_LIST_AT((head)->next, head, type, member)

/* Unlinks the object at the front and returns it, NULL when there is none. */
#define SW_LIST_POP(head, type, member) ((type *)sw_list_pop_object((head), offsetof(type, member)))

static inline void *sw_list_pop_object(struct sw_list *l, size_t offset)
{
    struct sw_list *m = sw_list_pop_front(l);

    return m ? (char *)m - offset : NULL;
}

/* The objects of the list, in order. The current one may be unlinked or freed in the body. */
#define SW_LIST_EACH(type, it, head, member)                                                       \
    for (type *it = SW_LIST_AT((head)->next, head, type, member),                                  \
              *sw_next_##it = it ? SW_LIST_AT(it->member.next, head, type, member) : NULL;         \
         it; it = sw_next_##it,                                                                    \
              sw_next_##it = it ? SW_LIST_AT(it->member.next, head, type, member) : NULL)
