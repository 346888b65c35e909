/*
 * Address space: a tree of ranges that do not overlap, ordered by address. It
 * is a treap: a search tree by start address that is also a heap by random
 * rank, so it stays shallow whatever the order of insertions.
 */
#include <stdlib.h>
#include <string.h>

#include "simcuda/sim.h"
#include "simcuda/tuning.h"

static uint32_t
next_rank(void)
{
	static uint32_t state = 2463534242u;

	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

/* Put ranges that start before `start` into *low, the others into *high. */
static void
treap_split(
    struct range *node, uint64_t start, struct range **low, struct range **high)
{
	while (node != NULL) {
		if (node->start < start) {
			*low = node;
			low = &node->right;
			node = node->right;
		} else {
			*high = node;
			high = &node->left;
			node = node->left;
		}
	}
	*low = NULL;
	*high = NULL;
}

static void
treap_join(struct range **link, struct range *low, struct range *high)
{
	while (low != NULL && high != NULL) {
		if (low->rank > high->rank) {
			*link = low;
			link = &low->right;
			low = low->right;
		} else {
			*link = high;
			link = &high->left;
			high = high->left;
		}
	}
	*link = low != NULL ? low : high;
}

void
tree_insert(struct tree *tree, struct range *range)
{
	struct range **link = &tree->root;

	range->rank = next_rank();
	while (*link != NULL && (*link)->rank >= range->rank)
		link = (*link)->start < range->start ? &(*link)->right :
						       &(*link)->left;
	treap_split(*link, range->start, &range->left, &range->right);
	*link = range;
	tree->n++;
}

void
tree_remove(struct tree *tree, struct range *range)
{
	struct range **link = &tree->root;

	while (*link != range)
		link = (*link)->start < range->start ? &(*link)->right :
						       &(*link)->left;
	treap_join(link, range->left, range->right);
	tree->n--;
}

struct range *
tree_at_or_after(const struct tree *tree, uint64_t address)
{
	struct range *node = tree->root, *found = NULL;

	while (node != NULL) {
		if (node->start + node->size > address) {
			found = node;
			node = node->left;
		} else {
			node = node->right;
		}
	}
	return found;
}

struct range *
tree_find(const struct tree *tree, uint64_t address)
{
	struct range *range = tree_at_or_after(tree, address);

	return range != NULL && range->start <= address ? range : NULL;
}

/* ---- ranges of memory --------------------------------------------------- */

struct range *
range_new(enum range_kind kind, uint64_t start, size_t size)
{
	struct range *range = sim_alloc(sizeof(*range));

	range->kind = kind;
	range->start = start;
	range->size = size;
	range->id = ++sim.next_id;
	tree_insert(&sim.memory, range);
	sim.n_ranges[kind]++;
	return range;
}

void
range_free(struct range *range)
{
	struct context *context = range->context;

	tree_remove(&sim.memory, range);
	sim.n_ranges[range->kind]--;
	if (context != NULL) {
		if (range->next_in_context != NULL)
			range->next_in_context->prev_in_context =
			    range->prev_in_context;
		if (range->prev_in_context != NULL)
			range->prev_in_context->next_in_context =
			    range->next_in_context;
		else
			context->ranges = range->next_in_context;
	}
	if (range->phys != NULL)
		phys_drop(range->phys);
	free(range->uses);
	free(range);
}

void
range_own(struct range *range, struct context *context)
{
	range->context = context;
	range->next_in_context = context->ranges;
	if (range->next_in_context != NULL)
		range->next_in_context->prev_in_context = range;
	context->ranges = range;
}

/* ---- who uses it -------------------------------------------------------- */

/* The first use of a line that is not before `slot`. */
static size_t
use_search(const struct range *range, uint32_t slot)
{
	size_t low = 0, high = range->n_uses;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (range->uses[middle].slot >= slot)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Forget uses that the host knows to be done, each time their number has
 * doubled. */
static void
forget_known_uses(struct range *range)
{
	size_t n = 0;

	if (range->n_uses < RANGE_USES_MANY ||
	    range->n_uses < range->uses_checked)
		return;
	for (size_t i = 0; i < range->n_uses; i++) {
		struct use *use = &range->uses[i];

		if (!host_has(use->slot, use->epoch))
			range->uses[n++] = *use;
	}
	range->n_uses = n;
	range->uses_checked = 2 * n;
}

void
range_use(struct range *range, const struct point *at)
{
	struct use use = { at->slot, at->epoch };
	size_t i;

	forget_known_uses(range);
	i = use_search(range, at->slot);
	if (i < range->n_uses && range->uses[i].slot == at->slot) {
		range->uses[i] = use;
		return;
	}
	range->uses = sim_grow(range->uses, range->n_uses,
	    &range->uses_capacity, sizeof(*range->uses));
	memmove(&range->uses[i + 1], &range->uses[i],
	    (range->n_uses - i) * sizeof(use));
	range->uses[i] = use;
	range->n_uses++;
}

const struct use *
range_unknown_use(const struct range *range, const struct point *by)
{
	for (size_t i = 0; i < range->n_uses; i++) {
		const struct use *use = &range->uses[i];

		if (!host_has(use->slot, use->epoch) &&
		    (by == NULL || !point_has(by, use->slot, use->epoch)))
			return use;
	}
	return NULL;
}
