/*
 * Bytes of DWARF that are read once, forwards. Each call is false, and nothing
 * is read, where the bytes end before. They are in the machine's byte order.
 */
#ifndef TRACE_DWARF_BYTES_H
#define TRACE_DWARF_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes of a length; of the one behind it in 64-bit DWARF, where the first is
 * UINT32_MAX. */
enum { LENGTH = 4, WIDE_LENGTH = 8 };

/* Bytes that are not read yet. */
struct rest {
	const unsigned char *at;
	size_t left;
};

/* Sizes that some forms have. */
struct form_sizes {
	size_t offset;    /* into another section: LENGTH or WIDE_LENGTH */
	size_t address;   /* 1 to 8 */
	size_t reference; /* of FORM_REF_ADDR */
};

/* Forms of a value that the callers know by name, as DWARF numbers them. */
enum {
	FORM_DATA2 = 0x05,
	FORM_DATA4 = 0x06,
	FORM_DATA8 = 0x07,
	FORM_DATA1 = 0x0b,
	FORM_UDATA = 0x0f,
	FORM_REF_ADDR = 0x10,
	FORM_REF1 = 0x11,
	FORM_REF2 = 0x12,
	FORM_REF4 = 0x13,
	FORM_REF8 = 0x14,
	FORM_REF_UDATA = 0x15,
	FORM_INDIRECT = 0x16,
	FORM_IMPLICIT_CONST = 0x21,
};

/* The number of 1, 2, 4 or 8 bytes there. */
static inline uint64_t
rest_number_at(const unsigned char *bytes, size_t size)
{
	uint16_t two;
	uint32_t four;
	uint64_t eight;

	switch (size) {
	case 1:
		return *bytes;
	case sizeof(two):
		memcpy(&two, bytes, sizeof(two));
		return two;
	case sizeof(four):
		memcpy(&four, bytes, sizeof(four));
		return four;
	default:
		memcpy(&eight, bytes, sizeof(eight));
		return eight;
	}
}

static inline bool
rest_skip(struct rest *rest, uint64_t size)
{
	if (size > rest->left)
		return false;
	rest->at += size;
	rest->left -= (size_t)size;
	return true;
}

static inline bool
rest_number(struct rest *rest, size_t size, uint64_t *out)
{
	const unsigned char *at = rest->at;

	if (!rest_skip(rest, size))
		return false;
	*out = rest_number_at(at, size);
	return true;
}

/* A number in pieces of seven bits, the lowest first. */
static inline bool
rest_uleb(struct rest *rest, uint64_t *out)
{
	unsigned shift = 0;
	unsigned char piece;

	*out = 0;
	do {
		if (rest->left == 0)
			return false;
		piece = *rest->at++;
		rest->left--;
		if (shift < 64)
			*out |= (uint64_t)(piece & 0x7f) << shift;
		shift += 7;
	} while ((piece & 0x80) != 0);
	return true;
}

/* The length of a table or unit, and whether it is 64-bit DWARF. */
bool rest_length(struct rest *rest, uint64_t *length, bool *wide);

/* Skip a value; false also for a form that is not known. */
bool rest_skip_form(
    struct rest *rest, uint64_t form, const struct form_sizes *sizes);

#endif
