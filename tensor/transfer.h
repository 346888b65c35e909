/*
 * Moves bytes between a file and memory, with several threads.
 *
 * The work is a list of pieces. Threads take chunks of them one after the
 * other. Each thread has a stream and two buffers of page-locked memory, so
 * that one buffer is copied to or from the device while the other is read from
 * or written to the file. Host memory is read and written directly.
 */
#ifndef TENSOR_TRANSFER_H
#define TENSOR_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/tensor.h>

/* Elements that are contiguous in memory and in the file. */
struct piece {
	const struct weir_tensor *tensor; /* contiguous */
	uint64_t at;                      /* offset in the file, in bytes */
	uint64_t bytes;                   /* > 0 */
	uint64_t before; /* bytes of the pieces before; set by transfer_run() */
};

struct transfer {
	int file;
	const char *path; /* for messages */
	bool to_file;
	struct piece *pieces;
	size_t n_pieces;
	void (*progress)(void *closure, uint64_t done, uint64_t total);
	void *closure;
};

/* Transfer everything, and wait for the end. WEIR_EFILE, WEIR_EHOSTMEM,
 * WEIR_EDRIVER. */
enum weir_status transfer_run(const struct transfer *transfer);

#endif
