/*
 * PyTorch's handles, parsed.
 */
#ifndef IPC_TORCH_H
#define IPC_TORCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The parts of a handle; they point into its bytes. */
struct torch_handle {
	int32_t pid;
	uint32_t count; /* number of pieces; 0: memory of the driver */
	uint64_t piece; /* bytes of each piece */
	bool fabric;    /* fabric handles instead of descriptors */
	const unsigned char *items;
};

/* Parse a handle. Returns NULL, or what is wrong with it. */
const char *torch_read(
    const void *data, size_t length, struct torch_handle *out);

#endif
