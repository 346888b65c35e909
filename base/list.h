/*
 * A circular list of links inside the structures that it contains. An empty
 * list has only its head; a link that is in no list points to itself.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next;
	struct list *prev;
};

/* The structure whose `member` is `link`. */
#define CONTAINER_OF(link, type, member)                                       \
	((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void
list_init(struct list *list)
{
	list->next = list;
	list->prev = list;
}

static inline bool
list_empty(const struct list *list)
{
	return list->next == list;
}

/* Insert `link` before `at`; before a head, that is the end of the list. */
static inline void
list_insert_before(struct list *at, struct list *link)
{
	link->prev = at->prev;
	link->next = at;
	at->prev->next = link;
	at->prev = link;
}

static inline void
list_push_back(struct list *head, struct list *link)
{
	list_insert_before(head, link);
}

static inline void
list_push_front(struct list *head, struct list *link)
{
	list_insert_before(head->next, link);
}

/* Remove `link` from its list; it points to itself afterwards. */
static inline void
list_remove(struct list *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	list_init(link);
}

#endif
