/*
 * Private pools: numbered holds on arenas.
 */
#ifndef GRAPHS_POOL_H
#define GRAPHS_POOL_H

#include <weir/graph.h>

#include "allocator/state.h"
#include "base/list.h"
#include "base/tree.h"

struct weir_pool {
	/* Constant. */
	uint64_t id;
	struct arena *arena; /* valid while held, and of `generation` */
	uint64_t generation;
	struct weir_pool_source source; /* if it has one */
	bool serves_driver;             /* WEIR_POOL_SERVES_DRIVER */

	/* Under the registry's lock. */
	unsigned refs;
	bool kept; /* WEIR_POOL_KEEP: has a keep on its arena */
	char name[WEIR_POOL_NAME_SIZE];
	struct tree_node node;
	struct list unheld;
};

/* Make a pool of an arena. On success it takes over one hold on the arena.
 * WEIR_EHOSTMEM. */
enum weir_status pool_adopt(struct arena *arena, struct weir_pool **out);

/* Add a holder. Cannot fail. */
void pool_hold(struct weir_pool *pool);

/* Is this a name that a pool may have? */
bool pool_is_name(const char *name);

/* Find the arenas of all pools of a name, `most` at most. Returns how many
 * there are. They are only good to be compared with: nobody holds them. */
size_t pool_arenas_named(const char *name, struct arena **out, size_t most);

/* ---- registrable.c ----------------------------------------------------- */

/* The source of the segments of a WEIR_POOL_REGISTRABLE pool. */
extern const struct source source_registrable;

/* Check that a device can have such a pool. WEIR_ENOTSUP. */
enum weir_status registrable_check(int device);

#endif
