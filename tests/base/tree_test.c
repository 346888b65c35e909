/*
 * The tree against a sorted array: after every insert and remove the tree is
 * consistent and returns the array's results. Small trees are tried in every
 * order, large ones in random orders of fixed seeds.
 */
#include "base/tree.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "tests/support/test.h"

struct item {
	uint64_t key;
	bool in;
	struct tree_node node;
};

static const struct tree_key by_key = TREE_KEY(struct item, node, key, key);

static uint64_t
random_next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

/*
 * The model: items[i].key == 2 * i, in the tree if items[i].in. Compare the
 * whole order both ways, and the bounds of every key and of those between.
 */
static void
expect_equal(const struct tree *tree, struct item *items, int n)
{
	struct tree_node *node = tree_first(tree);
	struct tree_node *prev = NULL;
	struct tree_node *bound = NULL;
	size_t count = 0;

	EXPECT(tree_consistent(tree));
	for (int i = 0; i < n; i++) {
		if (!items[i].in)
			continue;
		EXPECT_EQ(node, &items[i].node);
		EXPECT_EQ(tree_prev(node), prev);
		prev = node;
		node = tree_next(node);
		count++;
	}
	EXPECT_NULL(node);
	EXPECT_EQ(tree_last(tree), prev);
	EXPECT_EQ(tree->count, count);
	for (int i = n - 1; i >= 0; i--) {
		struct item above = { .key = items[i].key + 1 };

		EXPECT_EQ(tree_lower_bound(tree, &above.node), bound);
		EXPECT_NULL(tree_find(tree, above.key));
		EXPECT_EQ(tree_find(tree, items[i].key),
		    items[i].in ? &items[i].node : NULL);
		if (items[i].in)
			bound = &items[i].node;
		EXPECT_EQ(tree_lower_bound(tree, &items[i].node), bound);
	}
}

static struct item *
new_items(struct tree *tree, int n)
{
	struct item *items = calloc((size_t)n, sizeof(*items));

	for (int i = 0; i < n; i++)
		items[i].key = 2 * (uint64_t)i;
	tree_init(tree, by_key);
	return items;
}

static void
flip(struct tree *tree, struct item *item)
{
	if (item->in)
		tree_remove(tree, &item->node);
	else
		tree_insert(tree, &item->node);
	item->in = !item->in;
}

TEST(an_empty_tree_has_nothing)
{
	struct tree tree;
	struct item item = { .key = 1 };

	tree_init(&tree, by_key);
	EXPECT_NULL(tree_first(&tree));
	EXPECT_NULL(tree_last(&tree));
	EXPECT_NULL(tree_lower_bound(&tree, &item.node));
	EXPECT(tree_consistent(&tree));
}

/* Put order[0..n) into `order`, the `which`-th of their n! permutations. */
static void
permute(int *order, int n, int which)
{
	for (int i = 0; i < n; i++)
		order[i] = i;
	for (int i = n; i > 1; which /= i, i--) {
		int other = which % i;
		int kept = order[i - 1];

		order[i - 1] = order[other];
		order[other] = kept;
	}
}

TEST(small_trees_are_right_in_every_order_of_insert_and_remove)
{
	enum { N = 5, ORDERS = 120 };
	struct tree tree;
	struct item *items = new_items(&tree, N);
	int order[N];

	for (int in = 0; in < ORDERS; in++) {
		for (int out = 0; out < ORDERS; out++) {
			permute(order, N, in);
			for (int i = 0; i < N; i++)
				flip(&tree, &items[order[i]]);
			expect_equal(&tree, items, N);
			permute(order, N, out);
			for (int i = 0; i < N; i++) {
				flip(&tree, &items[order[i]]);
				expect_equal(&tree, items, N);
			}
		}
	}
	free(items);
}

static void
try_random(uint64_t seed, int n, int steps)
{
	struct tree tree;
	struct item *items = new_items(&tree, n);

	for (int i = 0; i < steps; i++) {
		flip(&tree, &items[random_next(&seed) % (uint64_t)n]);
		expect_equal(&tree, items, n);
	}
	for (int i = 0; i < n; i++) {
		if (!items[i].in)
			continue;
		flip(&tree, &items[i]);
		EXPECT(tree_consistent(&tree));
	}
	EXPECT_NULL(tree.root);
	free(items);
}

TEST(random_inserts_and_removes_agree_with_a_sorted_array)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		try_random(seed, 12, 600);
		try_random(seed, 100, 600);
	}
	try_random(99, 600, 2500);
}

/* Change the key of a node that is in the tree. */
static void
change(struct tree *tree, struct item *item, uint64_t key)
{
	bool lower = key < item->key;

	item->key = key;
	if (lower)
		tree_lowered(tree, &item->node);
	else
		tree_raised(tree, &item->node);
}

TEST(a_node_goes_where_its_changed_key_belongs)
{
	enum { N = 60, STEPS = 4000, KEYS = 1000 };
	struct tree tree;
	struct item *items = new_items(&tree, N);
	bool used[KEYS] = { false };
	uint64_t seed = 5;

	for (int i = 0; i < N; i++) {
		used[items[i].key] = true;
		flip(&tree, &items[i]);
	}
	for (int step = 0; step < STEPS; step++) {
		struct item *item = &items[random_next(&seed) % N];
		/* Near and mostly in place, or anywhere. */
		uint64_t key = step % 2 == 0 ?
		    item->key + random_next(&seed) % 5 - 2 :
		    random_next(&seed) % KEYS;
		if (key >= KEYS || used[key]) /* below 0 is far above */
			continue;
		used[item->key] = false;
		used[key] = true;
		change(&tree, item, key);
		EXPECT(tree_consistent(&tree));
		EXPECT_EQ(tree.count, N);
	}
	free(items);
}

TEST(the_second_numbers_decide_between_equal_first_ones)
{
	struct pair {
		struct tree_node node;
		uint64_t first;
		uint64_t second;
	} pairs[] = {
		/* In order; no number has a sign. */
		{ .first = 1, .second = 5 },
		{ .first = 1, .second = UINT64_MAX },
		{ .first = 2, .second = 0 },
		{ .first = UINT64_MAX, .second = 1 },
		{ .first = UINT64_MAX, .second = 2 },
	};
	enum { N = sizeof(pairs) / sizeof(pairs[0]) };
	struct tree tree;

	tree_init(&tree, TREE_KEY(struct pair, node, first, second));
	for (int i = 0; i < N; i++)
		tree_insert(&tree, &pairs[(i * 2) % N].node);
	EXPECT(tree_consistent(&tree));
	const struct tree_node *node = tree_first(&tree);
	for (int i = 0; i < N; i++, node = tree_next(node))
		EXPECT_EQ(node, &pairs[i].node);
	struct pair from = { .first = 1, .second = 6 };
	EXPECT_EQ(tree_lower_bound(&tree, &from.node), &pairs[1].node);
	EXPECT_EQ(tree_find(&tree, 1), &pairs[0].node);
	EXPECT_EQ(tree_find(&tree, UINT64_MAX), &pairs[3].node);
	EXPECT_NULL(tree_find(&tree, 3));
}

TEST(rising_keys_do_not_make_the_tree_deep)
{
	enum { N = 4096 };
	struct tree tree;
	struct item *items = new_items(&tree, N);
	int depth = 0;

	for (int i = 0; i < N; i++)
		flip(&tree, &items[i]);
	EXPECT(tree_consistent(&tree));
	for (struct tree_node *at = tree.root; at != NULL; at = at->child[1])
		depth++;
	EXPECT_LE(depth, 13);
	free(items);
}

/* Each fault that tree_consistent() has to find. */
TEST(a_damaged_tree_is_not_consistent)
{
	enum { N = 20 };
	struct tree tree;
	struct item *items = new_items(&tree, N);
	struct tree_node *kept;

	for (int i = 0; i < N; i++)
		flip(&tree, &items[i]);
	EXPECT(tree_consistent(&tree));

	items[3].key = 100;
	EXPECT(!tree_consistent(&tree));
	items[3].key = 6;

	tree.count++;
	EXPECT(!tree_consistent(&tree));
	tree.count--;

	tree.root->balance ^= 1;
	EXPECT(!tree_consistent(&tree));
	tree.root->balance ^= 1;

	kept = tree.root->child[0]->parent;
	tree.root->child[0]->parent = NULL;
	EXPECT(!tree_consistent(&tree));
	tree.root->child[0]->parent = kept;

	kept = tree_last(&tree);
	kept->child[1] = tree.root;
	EXPECT(!tree_consistent(&tree));
	kept->child[1] = NULL;

	kept = tree.root;
	tree.root = NULL;
	EXPECT(!tree_consistent(&tree));
	tree.root = kept;
	EXPECT(tree_consistent(&tree));
	free(items);
}
