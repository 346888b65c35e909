/*
 * An AVL tree with parent links. Every node stores how much deeper its higher
 * side is than its lower side: -1, 0 or 1 between calls, and 2 or -2 only until
 * rebalance() has rotated the node down.
 *
 * A side is an index into child[]: 0 is lower, 1 is higher.
 */
#include "base/tree.h"

#include <string.h>

enum { LOWER, HIGHER };

/* Owners use their own types of 64 bits. */
static inline uint64_t
key_number(const struct tree_node *node, ptrdiff_t offset)
{
	uint64_t number;

	memcpy(&number, (const char *)node + offset, sizeof(number));
	return number;
}

static inline bool
node_is_before(const struct tree_node *a, const struct tree_node *b,
    const struct tree_key *key)
{
	uint64_t x = key_number(a, key->first);
	uint64_t y = key_number(b, key->first);

	return x != y ? x < y :
			key_number(a, key->second) < key_number(b, key->second);
}

/* The balance of a node that is deeper by one on `side`. */
static int
lean(int side)
{
	return side == HIGHER ? 1 : -1;
}

static int
side_of(const struct tree_node *node)
{
	return node->parent->child[HIGHER] == node ? HIGHER : LOWER;
}

/* Replace `node` by `with`, which may be NULL, as the child of its parent. */
static void
replace_child(struct tree *tree, struct tree_node *node, struct tree_node *with)
{
	if (node->parent == NULL)
		tree->root = with;
	else
		node->parent->child[side_of(node)] = with;
	if (with != NULL)
		with->parent = node->parent;
}

static void
link_child(struct tree_node *parent, int side, struct tree_node *child)
{
	parent->child[side] = child;
	if (child != NULL)
		child->parent = parent;
}

/* Move the child of `top` on `side` into the place of `top`. */
static void
rotate(struct tree *tree, struct tree_node *top, int side)
{
	struct tree_node *child = top->child[side];

	replace_child(tree, top, child);
	link_child(top, side, child->child[!side]);
	link_child(child, !side, top);
}

/* Rebalance a node whose balance is 2 or -2; returns the node in its place. */
static struct tree_node *
rebalance(struct tree *tree, struct tree_node *top)
{
	int side = top->balance > 0 ? HIGHER : LOWER;
	struct tree_node *child = top->child[side];
	struct tree_node *middle = child->child[!side];

	if (child->balance != lean(!side)) {
		rotate(tree, top, side);
		/* After a removal the child may have been balanced. */
		top->balance = child->balance == 0 ? lean(side) : 0;
		child->balance = child->balance == 0 ? lean(!side) : 0;
		return child;
	}
	rotate(tree, child, !side);
	rotate(tree, top, side);
	top->balance = middle->balance == lean(side) ? lean(!side) : 0;
	child->balance = middle->balance == lean(!side) ? lean(side) : 0;
	middle->balance = 0;
	return middle;
}

void
tree_init(struct tree *tree, struct tree_key key)
{
	tree->root = NULL;
	tree->key = key;
	tree->count = 0;
}

void
tree_insert_among(struct tree *tree, struct tree_node *node)
{
	const struct tree_key key = tree->key;
	struct tree_node **at = &tree->root;
	struct tree_node *parent = NULL;

	while (*at != NULL) {
		parent = *at;
		at = &parent->child[node_is_before(parent, node, &key)];
	}
	*node = (struct tree_node){ .parent = parent };
	*at = node;
	tree->count++;

	/* The subtree at `node` has become deeper; stop at a parent that has
	 * not. */
	for (; parent != NULL; node = parent, parent = node->parent) {
		int before = parent->balance;

		parent->balance = before + lean(side_of(node));
		if (parent->balance == 0)
			return;
		if (before != 0) {
			rebalance(tree, parent);
			return;
		}
	}
}

/* The subtree of `parent` on `side` has become less deep. */
static void
shrunk(struct tree *tree, struct tree_node *parent, int side)
{
	while (parent != NULL) {
		struct tree_node *top = parent;

		top->balance -= lean(side);
		if (top->balance == 1 || top->balance == -1)
			return;
		if (top->balance != 0) {
			top = rebalance(tree, top);
			if (top->balance != 0)
				return;
		}
		parent = top->parent;
		if (parent != NULL)
			side = side_of(top);
	}
}

void
tree_remove_from(struct tree *tree, struct tree_node *node)
{
	struct tree_node *parent = node->parent;
	int side = parent == NULL ? LOWER : side_of(node);
	struct tree_node *heir;

	tree->count--;
	if (node->child[LOWER] == NULL || node->child[HIGHER] == NULL) {
		heir = node->child[node->child[LOWER] == NULL];
		replace_child(tree, node, heir);
		shrunk(tree, parent, side);
		return;
	}

	/* The next higher node takes its place and its balance. */
	heir = tree_next(node);
	parent = heir->parent;
	side = side_of(heir);
	replace_child(tree, heir, heir->child[HIGHER]);
	if (parent == node)
		parent = heir;
	replace_child(tree, node, heir);
	link_child(heir, LOWER, node->child[LOWER]);
	link_child(heir, HIGHER, node->child[HIGHER]);
	heir->balance = node->balance;
	shrunk(tree, parent, side);
}

struct tree_node *
tree_lower_bound(const struct tree *tree, const struct tree_node *key)
{
	struct tree_node *node = tree->root;
	struct tree_node *found = NULL;

	while (node != NULL) {
		if (node_is_before(node, key, &tree->key)) {
			node = node->child[HIGHER];
		} else {
			found = node;
			node = node->child[LOWER];
		}
	}
	return found;
}

struct tree_node *
tree_find(const struct tree *tree, uint64_t number)
{
	struct tree_node *node = tree->root;
	struct tree_node *found = NULL;

	while (node != NULL) {
		uint64_t here = key_number(node, tree->key.first);
		if (here == number)
			found = node;
		node = node->child[here < number ? HIGHER : LOWER];
	}
	return found;
}

/* The last node on `side` of the subtree at `node`. */
static struct tree_node *
extreme(struct tree_node *node, int side)
{
	while (node != NULL && node->child[side] != NULL)
		node = node->child[side];
	return node;
}

struct tree_node *
tree_first(const struct tree *tree)
{
	return extreme(tree->root, LOWER);
}

struct tree_node *
tree_last(const struct tree *tree)
{
	return extreme(tree->root, HIGHER);
}

/* The neighbour of `node` on `side` in order. */
static struct tree_node *
neighbour(const struct tree_node *node, int side)
{
	if (node->child[side] != NULL)
		return extreme(node->child[side], !side);
	while (node->parent != NULL && side_of(node) == side)
		node = node->parent;
	return node->parent;
}

struct tree_node *
tree_next(const struct tree_node *node)
{
	return neighbour(node, HIGHER);
}

struct tree_node *
tree_prev(const struct tree_node *node)
{
	return neighbour(node, LOWER);
}

/* Move a node that is out of order to its right place. */
static __attribute__((noinline)) void
move_node(struct tree *tree, struct tree_node *node)
{
	tree_remove(tree, node);
	tree_insert(tree, node);
}

void
tree_lower(struct tree *tree, struct tree_node *node)
{
	const struct tree_node *prev = tree_prev(node);

	if (prev != NULL && node_is_before(node, prev, &tree->key))
		move_node(tree, node);
}

void
tree_raise(struct tree *tree, struct tree_node *node)
{
	const struct tree_node *next = tree_next(node);

	if (next != NULL && node_is_before(next, node, &tree->key))
		move_node(tree, node);
}

/*
 * The height of the subtree at `node`, or -1 if it has a fault. Adds its nodes
 * to `count`. A child is entered only if it points back to its parent, so the
 * walk ends even if links form a ring.
 */
static int
measure(const struct tree_node *node, size_t *count)
{
	int height[2] = { 0, 0 };

	for (int side = LOWER; side <= HIGHER; side++) {
		const struct tree_node *child = node->child[side];

		if (child == NULL)
			continue;
		if (child->parent != node)
			return -1;
		height[side] = measure(child, count);
		if (height[side] < 0)
			return -1;
	}
	if (node->balance != height[HIGHER] - height[LOWER] ||
	    node->balance < -1 || node->balance > 1)
		return -1;
	++*count;
	return 1 +
	    (height[HIGHER] > height[LOWER] ? height[HIGHER] : height[LOWER]);
}

bool
tree_consistent(const struct tree *tree)
{
	const struct tree_node *node;
	const struct tree_node *next;
	size_t count = 0;

	if (tree->root == NULL)
		return tree->count == 0;
	if (tree->root->parent != NULL || measure(tree->root, &count) < 0 ||
	    count != tree->count)
		return false;
	for (node = tree_first(tree); node != NULL; node = next) {
		next = tree_next(node);
		if (next != NULL && !node_is_before(node, next, &tree->key))
			return false;
	}
	return true;
}
