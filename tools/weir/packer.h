/*
 * Bytes as text, deflated (zlib's form) and in base64: a page can hold them and
 * a browser can read them.
 */
#ifndef TOOLS_WEIR_PACKER_H
#define TOOLS_WEIR_PACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <zlib.h>

enum { PACKER_IN = 1 << 16, PACKER_OUT = 3 << 14 };

struct packer {
	z_stream deflate;
	FILE *out;
	uint64_t taken; /* bytes so far */
	size_t waiting; /* bytes in `in` */
	unsigned char in[PACKER_IN];
	unsigned char packed[PACKER_OUT]; /* a multiple of 3 */
};

/* False without memory. */
bool packer_open(struct packer *packer, FILE *out);
/* Bytes, in the order they are to be read. */
void packer_add(struct packer *packer, const void *bytes, size_t size);
/* Zeros up to a multiple of 8. */
void packer_align(struct packer *packer);
/* Write the rest. ferror() reports what did not reach the file. */
void packer_close(struct packer *packer);

#endif
