/*
 * Conversion of bytes to text that a page can contain and a browser can read:
 * deflated (zlib's form) and in base64.
 */
#ifndef TOOLS_WEIR_EXPORT_PACKER_H
#define TOOLS_WEIR_EXPORT_PACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <zlib.h>

#include "tools/weir/tuning.h"

struct packer {
	z_stream deflate;
	FILE *out;
	uint64_t added; /* bytes so far */
	size_t waiting; /* bytes in `in` */
	unsigned char in[PACKER_IN];
	unsigned char packed[PACKER_OUT]; /* a multiple of 3 */
};

/* Begin to write to `out`. False without memory. */
bool packer_open(struct packer *packer, FILE *out);
/* Add bytes at the end. */
void packer_add(struct packer *packer, const void *bytes, size_t size);
/* Add zeros up to a multiple of 8 bytes. */
void packer_align(struct packer *packer);
/* Write the rest. ferror(out) reports a failure to write. */
void packer_close(struct packer *packer);

#endif
