/*
 * A cursor over DWARF bytes, which are read once, forwards, in the machine's
 * byte order. Each call returns false, and reads nothing, if the bytes end too
 * early.
 */
#ifndef STACKS_DWARF_BYTES_H
#define STACKS_DWARF_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The bytes of a length; and of the second length in 64-bit DWARF, where the
 * first is UINT32_MAX. */
enum { LENGTH = 4, WIDE_LENGTH = 8 };

/* The unread bytes. */
struct rest {
	const unsigned char *at;
	size_t left;
};

/* The sizes of values that depend on the unit. */
struct form_sizes {
	/* An offset into another section: LENGTH or WIDE_LENGTH. */
	size_t offset;
	size_t address;   /* an address: 1 to 8 */
	size_t reference; /* a value of FORM_REF_ADDR */
};

/* Indexes and offsets are below: the reader multiplies and adds them, and does
 * not look whether that wraps around. */
#define DWARF_INDEX_MAX ((uint64_t)1 << 40)

/* Forms that callers use by name, with DWARF's numbers. */
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
	FORM_SEC_OFFSET = 0x17,
	FORM_STRX = 0x1a,
	FORM_ADDRX = 0x1b,
	FORM_REF_SUP4 = 0x1c,
	FORM_REF_SIG8 = 0x20,
	FORM_IMPLICIT_CONST = 0x21,
	FORM_RNGLISTX = 0x23,
	FORM_REF_SUP8 = 0x24,
	FORM_GNU_REF_ALT = 0x1f20,
};

/* The number that is stored in 1, 2, 4 or 8 bytes. */
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
	if (size == 0) /* a section that the file lacks has no address */
		return true;
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

/* Read an unsigned LEB128 number: groups of seven bits, the lowest first. */
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

/* Read the length of a table or unit, and whether it is 64-bit DWARF. */
bool rest_length(struct rest *rest, uint64_t *length, bool *wide);

/* Skip a text with its end. */
bool rest_skip_string(struct rest *rest);

/* Skip a value; false also if the form is unknown. */
bool rest_skip_form(
    struct rest *rest, uint64_t form, const struct form_sizes *sizes);

#endif
