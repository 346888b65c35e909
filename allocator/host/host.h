/*
 * Where page-locked host memory comes from, and who looks after it.
 */
#ifndef ALLOCATOR_HOST_HOST_H
#define ALLOCATOR_HOST_HOST_H

#include "allocator/memory/types.h"

/* The kinds of a device: each combination of enum weir_host_flags from the
 * driver, and memory of our own that is registered; and each combination once
 * more, with nothing finer than WEIR_GRANULE, as the driver hands it out. */
enum {
	HOST_FLAGS = 7,
	HOST_REGISTERED = 8,
	HOST_COARSE = 9,
	HOST_KINDS = HOST_COARSE + HOST_FLAGS + 1
};

/* The source of a kind. */
const struct source *host_source(unsigned kind);

/* The context of a device is gone: its reserves are, too. */
void host_pages_forget(int device);

/* Where the system's tables are: "/sys". Tests have others. */
extern const char *host_tables;

/*
 * The NUMA node of a PCI device, as a system's tables under `root` say; -1:
 * they do not, or there is but one.
 *
 * @param bus_id  as the driver writes it: 0000:3B:00.0, in either case
 */
int host_node(const char *root, const char *bus_id);

/* The context of a device is gone. */
void host_forget_device(int device);

/* The arena of a kind of a device, if it has one; no lock. */
struct arena *host_arena_peek(int device, unsigned kind);

/*
 * Memory of weir's own, to be given back with weir_host_free(): pages that are
 * registered, whatever the options have for others, so that several threads get
 * it faster; from the driver where that registers none. Holds no lock.
 *
 * @return WEIR_EHOSTMEM, WEIR_EDRIVER
 */
enum weir_status host_get(int device, size_t size, void **out);

/* See to it that the thread that looks after freed memory runs. Whatever fails,
 * nothing depends on it. */
void host_reap_start(void);
/* Much has been freed that nobody may ask for again: the same thread gives it
 * back when it has decayed. */
void host_reap_freed(void);

#endif
