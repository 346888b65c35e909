/*
 * A balanced binary search tree inside the structures that it contains, ordered
 * by their key of one or two numbers. The owner must avoid equal keys. No
 * allocation; insert, remove and search are O(log n).
 */
#ifndef BASE_TREE_H
#define BASE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tree_node {
	struct tree_node *parent;
	struct tree_node *child[2]; /* lower, higher */
	int balance;                /* height(higher) - height(lower) */
};

/* The offsets of a key's numbers in a structure: bytes from its node to an
 * unsigned field of 64 bits. If the first numbers are equal, the second ones
 * decide. */
struct tree_key {
	ptrdiff_t first;
	ptrdiff_t second;
};

/* A key of the fields `a` and `b` of a type. For a key of one field, pass it
 * twice. */
#define TREE_KEY(type, node, a, b)                                             \
	((struct tree_key){                                                    \
	    (ptrdiff_t)offsetof(type, a) - (ptrdiff_t)offsetof(type, node),    \
	    (ptrdiff_t)offsetof(type, b) - (ptrdiff_t)offsetof(type, node) })

struct tree {
	struct tree_node *root;
	struct tree_key key;
	size_t count;
};

void tree_init(struct tree *tree, struct tree_key key);

/* Insert and remove a node. Many trees have at most one node, for which no
 * search and no balancing is necessary. */
void tree_insert_among(struct tree *tree, struct tree_node *node);
void tree_remove_from(struct tree *tree, struct tree_node *node);
static inline void
tree_insert(struct tree *tree, struct tree_node *node)
{
	if (tree->root != NULL) {
		tree_insert_among(tree, node);
		return;
	}
	*node = (struct tree_node){ 0 };
	tree->root = node;
	tree->count = 1;
}
static inline void
tree_remove(struct tree *tree, struct tree_node *node)
{
	if (tree->count > 1) {
		tree_remove_from(tree, node);
		return;
	}
	tree->root = NULL;
	tree->count = 0;
}

/* The key of a node has become lower, or higher: move the node to its right
 * place. Most nodes need not move, and a single node never does. */
void tree_lower(struct tree *tree, struct tree_node *node);
void tree_raise(struct tree *tree, struct tree_node *node);
static inline void
tree_lowered(struct tree *tree, struct tree_node *node)
{
	if (tree->count > 1)
		tree_lower(tree, node);
}
static inline void
tree_raised(struct tree *tree, struct tree_node *node)
{
	if (tree->count > 1)
		tree_raise(tree, node);
}

/* The first node that is not before `key` (which need not be in the tree), or
 * NULL. */
struct tree_node *tree_lower_bound(
    const struct tree *tree, const struct tree_node *key);
/* The first node whose first number is `number`, or NULL. */
struct tree_node *tree_find(const struct tree *tree, uint64_t number);
struct tree_node *tree_first(const struct tree *tree);
struct tree_node *tree_last(const struct tree *tree);
struct tree_node *tree_next(const struct tree_node *node);
struct tree_node *tree_prev(const struct tree_node *node);

/* Are order, links, balances and count right? */
bool tree_consistent(const struct tree *tree);

#endif
