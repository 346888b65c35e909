/*
 * The kinds of page-locked memory.
 */
#ifndef ALLOCATOR_HOST_KINDS_H
#define ALLOCATOR_HOST_KINDS_H

#include <stdbool.h>

#include <weir/host.h>

enum { HOST_FLAGS = 7 }; /* all of enum weir_host_flags */

/*
 * A kind: memory that serves the same requests. Handles and registered pages
 * have one kind each, because they are portable and mapped whatever the flags
 * say. The driver's memory has a kind for each combination of flags.
 *
 * allocator_malloc_host() has kinds of its own, from HOST_COARSE on. Their
 * granule is WEIR_GRANULE, and each combination of flags has a kind, so that a
 * block's kind tells its flags.
 */
enum {
	HOST_COARSE = 10,
	HOST_COARSE_PLAIN = 4, /* combinations without write-combining */
	HOST_KINDS = HOST_COARSE + 2 * HOST_COARSE_PLAIN + HOST_FLAGS + 1
};

/* The kind that serves a request. Write-combined memory comes from the driver
 * only, whatever `source` says. Memory for which a program will ask for a
 * device pointer does not come from handles, because
 * cuMemHostGetDevicePointer() gives the start of the handle for each address in
 * it. (The hooks of the preload answer that, and their requests are coarse.) */
unsigned host_kind(enum weir_host_source source, unsigned flags, bool coarse);

/* The properties of a kind. `flags` is 0 where they do not matter. */
struct host_kind {
	enum weir_host_source source;
	unsigned flags;
	bool coarse;
};
struct host_kind host_kind_facts(unsigned kind);

#endif
