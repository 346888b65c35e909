/*
 * The sources of page-locked host memory.
 */
#ifndef ALLOCATOR_HOST_PAGES_H
#define ALLOCATOR_HOST_PAGES_H

#include "allocator/state.h"

/* The source of a kind of host memory. */
const struct source *host_source(unsigned kind);

/* The folder of the system's tables: "/sys". Tests set another. */
extern const char *host_tables;

/*
 * The NUMA node of a PCI device, from the system's tables under `root`. -1:
 * they name none, or there is one node only.
 *
 * @param bus_id  as the driver writes it: 0000:3B:00.0, in either case
 */
int host_node(const char *root, const char *bus_id);

/* The NUMA node of a device; -1 if the system names none. */
int host_numa_node(int device);

#endif
