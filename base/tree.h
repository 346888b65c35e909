/*
 * A balanced binary search tree through the structures it holds, ordered by a
 * function of its owner. Equal keys are the owner's to avoid. No allocation;
 * insert, remove and search are O(log n).
 */
#ifndef BASE_TREE_H
#define BASE_TREE_H

#include <stdbool.h>
#include <stddef.h>

struct tree_node {
	struct tree_node *parent;
	struct tree_node *child[2]; /* lower, higher */
	int balance;                /* height(higher) - height(lower) */
};

/* < 0, 0, > 0 as a comes before, at or after b. */
typedef int (*tree_compare)(
    const struct tree_node *a, const struct tree_node *b);

struct tree {
	struct tree_node *root;
	tree_compare compare;
	size_t count;
};

void tree_init(struct tree *tree, tree_compare compare);
void tree_insert(struct tree *tree, struct tree_node *node);
void tree_remove(struct tree *tree, struct tree_node *node);

/* A node that is in no tree takes the place of one that is. */
void tree_replace(
    struct tree *tree, struct tree_node *node, struct tree_node *with);

/* The key of a node has become lower, or higher: it goes where it belongs. Most
 * of them stay, and a node alone always does. */
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
struct tree_node *tree_first(const struct tree *tree);
struct tree_node *tree_last(const struct tree *tree);
struct tree_node *tree_next(const struct tree_node *node);
struct tree_node *tree_prev(const struct tree_node *node);

/* True if order, links, balances and count are as they must be. */
bool tree_consistent(const struct tree *tree);

#endif
