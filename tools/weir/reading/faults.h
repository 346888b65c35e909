/*
 * The faults that `weir check` finds.
 */
#ifndef TOOLS_WEIR_READING_FAULTS_H
#define TOOLS_WEIR_READING_FAULTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The address of a fault that is at none. */
#define FAULT_ANYWHERE UINT64_MAX

struct faults {
	json_t *list; /* of {rule, device, address, what} */
	bool host;    /* the check is at page-locked host memory */
	bool failed;  /* memory was lacking */
};

/* Add a fault. Without memory, `failed` is set. */
void add_fault(struct faults *faults, const char *rule, uint32_t device,
    uint64_t address, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
