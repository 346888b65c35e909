/*
 * Declarations that the parts of the kernels' writer share.
 *
 *	ptx_text.c     registers, loads and stores
 *	ptx_convert.c  conversions
 *	ptx_tile.c     the kernels of tiles
 *	ptx_parts.c    parameters, indices and dimensions
 *	ptx.c          the other kernels, and the call of each
 *
 * Every value has its own registers, which are written only once: the driver's
 * compiler decides which can be shared. %r registers have 32 bits, %l 64, %h
 * 16; %f and %d are floating-point, %p predicates.
 */
#ifndef TENSOR_PTX_PARTS_H
#define TENSOR_PTX_PARTS_H

#include "tensor/ptx.h"

enum { PTX_REGISTERS = 4000, PTX_RAW_MAX = 2 };

/* Where the text is written, and the registers in use. */
struct ptx_writer {
	char *text;
	size_t size;
	size_t at;
	bool full;
	int next; /* the next register, of all kinds together */
};

/* ---- ptx_text.c --------------------------------------------------------- */

void ptx_put(struct ptx_writer *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A new register. */
int ptx_fresh(struct ptx_writer *w);

/* The registers of a load, by type: %h, %r, %l, %f or %d. */
struct ptx_raw {
	int reg[PTX_RAW_MAX];
};

/* How memory of a type is accessed: the type, the letter of its registers, and
 * how many registers an element has. */
struct ptx_form {
	const char *type;
	char letter;
	unsigned parts;
};

/* The form of the destination, or of the source. */
struct ptx_form ptx_form_of(const struct ptx_kernel *kernel, bool to);

/* Load or store one element at an address, if the predicate is true. */
struct ptx_raw ptx_load(
    struct ptx_writer *w, struct ptx_form form, int predicate, int address);
void ptx_store(struct ptx_writer *w, struct ptx_form form, int predicate,
    int address, struct ptx_raw raw);

/* Two or four elements of one register each; elements of 8 bytes are grouped in
 * twos. */
struct ptx_group {
	int n;
	struct ptx_raw raw[4];
};
void ptx_access_group(struct ptx_writer *w, struct ptx_form form, bool is_load,
    int predicate, int address, const struct ptx_group *group);

/* ---- ptx_convert.c ------------------------------------------------------ */

/* Convert the loaded value to the destination's type. */
struct ptx_raw ptx_convert(
    struct ptx_writer *w, const struct ptx_kernel *kernel, struct ptx_raw raw);

/* ---- ptx_parts.c -------------------------------------------------------- */

/* A parameter of the kernel: as it is; as an address; or below 2^32. */
int ptx_parameter(struct ptx_writer *w, int i);
int ptx_address_parameter(struct ptx_writer *w, int i);
int ptx_short_parameter(struct ptx_writer *w, int i);

/* Add index * stride to an address; the index is a %r register. */
int ptx_advance(struct ptx_writer *w, int address, int index, int stride);

/* The strides and extents of dimensions, which are read once. */
struct ptx_dims {
	int extent[KERNEL_DIMS]; /* %r; not of the first dimension */
	int to_stride[KERNEL_DIMS];
	int from_stride[KERNEL_DIMS];
};
void ptx_read_dims(struct ptx_writer *w, const struct ptx_kernel *kernel,
    struct ptx_dims *dims);

/* Take dimensions first to last, the last one first, out of `rest`, and move
 * both addresses by them. The remainder is the index in the dimension before.
 */
int ptx_take_dims(struct ptx_writer *w, const struct ptx_dims *dims, int last,
    int rest, int addresses[2]);

/* ---- ptx_tile.c --------------------------------------------------------- */

void ptx_write_tile(struct ptx_writer *w, const struct ptx_kernel *kernel);
void ptx_write_pack(struct ptx_writer *w, const struct ptx_kernel *kernel);

#endif
