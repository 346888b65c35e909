/*
 * Where page-locked host memory comes from.
 */
#ifndef ALLOCATOR_HOST_PAGES_H
#define ALLOCATOR_HOST_PAGES_H

#include "allocator/memory/types.h"

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

#endif
