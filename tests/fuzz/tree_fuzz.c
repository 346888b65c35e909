/*
 * The tree, against a sorted array.
 */
#include <stdlib.h>

#include "base/tree.h"
#include "tests/fuzz/fuzz.h"

enum { NODES = 64 };

struct item {
	struct tree_node node; /* first */
	uint64_t key;
	bool in;
};

static struct item items[NODES];

/* The item of the least key from one on, or NULL. */
static const struct item *
least_from(unsigned key)
{
	const struct item *least = NULL;

	for (int i = 0; i < NODES; i++)
		if (items[i].in && items[i].key >= key &&
		    (least == NULL || items[i].key < least->key))
			least = &items[i];
	return least;
}

static bool
is_taken(unsigned key)
{
	const struct item *found = least_from(key);

	return found != NULL && found->key == key;
}

static void
step(struct tree *tree, struct item *item, unsigned key)
{
	if (item->in && key % 4 == 3 && !is_taken(key)) {
		bool lower = key < item->key;

		item->key = key;
		if (lower)
			tree_lowered(tree, &item->node);
		else
			tree_raised(tree, &item->node);
	} else if (item->in) {
		tree_remove(tree, &item->node);
		item->in = false;
	} else if (!is_taken(key)) {
		item->key = key;
		item->in = true;
		tree_insert(tree, &item->node);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_steps steps = { data, data + size };
	struct tree tree;

	tree_init(&tree, TREE_KEY(struct item, node, key, key));
	for (int i = 0; i < NODES; i++)
		items[i] = (struct item){ .in = false };
	while (fuzz_more(&steps)) {
		struct item *item = &items[fuzz_byte(&steps) % NODES];
		unsigned key = fuzz_byte(&steps);
		struct item wanted = { .key = key };

		step(&tree, item, key);
		fuzz_expect(tree_consistent(&tree), "the tree");
		fuzz_expect((const struct item *)tree_lower_bound(
				&tree, &wanted.node) == least_from(key),
		    "the least from a key on");
		fuzz_expect(
		    (const struct item *)tree_first(&tree) == least_from(0),
		    "the first");
	}
	return 0;
}
