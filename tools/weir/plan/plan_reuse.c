/*
 * A sorted array: a program has few large blocks at once.
 */
#include "tools/weir/plan/plan_reuse.h"

#include <stdlib.h>
#include <string.h>

#include "tools/weir/plan/plan_rounds.h"

void
plan_reuse_drop(struct plan_reuse *reuse)
{
	free(reuse->list);
	*reuse = (struct plan_reuse){ 0 };
}

/* The first range that ends behind an address. */
static size_t
first_behind(const struct plan_reuse *reuse, uint64_t addr)
{
	size_t low = 0;
	size_t high = reuse->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (reuse->list[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Make room for the two ranges that a call may add. */
static bool
grow_list(struct plan_reuse *reuse)
{
	size_t capacity = 2 * reuse->capacity + 64;
	struct plan_owned *list;

	if (reuse->count + 2 <= reuse->capacity)
		return true;
	list = realloc(reuse->list, capacity * sizeof(*list));
	if (list == NULL)
		return false;
	reuse->list = list;
	reuse->capacity = capacity;
	return true;
}

bool
plan_reuse_give(struct plan_reuse *reuse, const struct plan_owned *given,
    void (*reused)(void *about, uint32_t request), void *about)
{
	struct plan_owned put[3]; /* in place of the ranges from `first` on */
	size_t first = first_behind(reuse, given->begin);
	size_t last = first;
	size_t n = 0;

	if (!grow_list(reuse))
		return false;
	struct plan_owned *list = reuse->list;
	for (; last < reuse->count && list[last].begin < given->end; last++)
		reused(about, list[last].request);
	if (last > first && list[first].begin < given->begin)
		put[n++] = (struct plan_owned){ list[first].begin, given->begin,
			list[first].request };
	if (given->request != PLAN_NO_REQUEST)
		put[n++] = *given;
	if (last > first && list[last - 1].end > given->end)
		put[n++] = (struct plan_owned){ given->end, list[last - 1].end,
			list[last - 1].request };
	memmove(&list[first + n], &list[last],
	    (reuse->count - last) * sizeof(*list));
	memcpy(&list[first], put, n * sizeof(*put));
	reuse->count = reuse->count - (last - first) + n;
	return true;
}
