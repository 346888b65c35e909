/*
 * Numbers and attribute values of DWARF.
 */
#include "stacks/dwarf_bytes.h"

#include <string.h>

bool
rest_length(struct rest *rest, uint64_t *length, bool *wide)
{
	if (!rest_number(rest, LENGTH, length))
		return false;
	*wide = *length == UINT32_MAX;
	return !*wide || rest_number(rest, WIDE_LENGTH, length);
}

/* Skip a block and the length before it, a number of `length_size` bytes, or
 * LEB128 if that is 0. */
static bool
rest_skip_block(struct rest *rest, size_t length_size)
{
	uint64_t length;

	return (length_size == 0 ? rest_uleb(rest, &length) :
				   rest_number(rest, length_size, &length)) &&
	    rest_skip(rest, length);
}

bool
rest_skip_string(struct rest *rest)
{
	const unsigned char *end =
	    rest->left == 0 ? NULL : memchr(rest->at, 0, rest->left);

	return end != NULL && rest_skip(rest, (uint64_t)(end - rest->at) + 1);
}

enum kind {
	UNKNOWN, /* the form is not known */
	FIXED,   /* as many bytes as the table says */
	ADDRESS,
	OFFSET,
	REFERENCE,
	PIECES, /* LEB128, signed or not */
	BLOCK,  /* a block after its length of `bytes` bytes, or LEB128 if 0 */
	STRING,
	INDIRECT,
};

struct form {
	uint8_t kind;
	uint8_t bytes;
};

/* Indexed by the form's number; the GNU forms are elsewhere. */
static const struct form forms[] = {
	[0x01] = { ADDRESS, 0 },
	[0x03] = { BLOCK, 2 },
	[0x04] = { BLOCK, 4 },
	[FORM_DATA2] = { FIXED, 2 },
	[FORM_DATA4] = { FIXED, 4 },
	[FORM_DATA8] = { FIXED, 8 },
	[0x08] = { STRING, 0 },
	[0x09] = { BLOCK, 0 },
	[0x0a] = { BLOCK, 1 },
	[FORM_DATA1] = { FIXED, 1 },
	[0x0c] = { FIXED, 1 },  /* flag */
	[0x0d] = { PIECES, 0 }, /* sdata */
	[0x0e] = { OFFSET, 0 }, /* strp */
	[FORM_UDATA] = { PIECES, 0 },
	[FORM_REF_ADDR] = { REFERENCE, 0 },
	[FORM_REF1] = { FIXED, 1 },
	[FORM_REF2] = { FIXED, 2 },
	[FORM_REF4] = { FIXED, 4 },
	[FORM_REF8] = { FIXED, 8 },
	[FORM_REF_UDATA] = { PIECES, 0 },
	[FORM_INDIRECT] = { INDIRECT, 0 },
	[0x17] = { OFFSET, 0 }, /* sec_offset */
	[0x18] = { BLOCK, 0 },  /* exprloc */
	[0x19] = { FIXED, 0 },  /* flag_present */
	[0x1a] = { PIECES, 0 }, /* strx */
	[0x1b] = { PIECES, 0 }, /* addrx */
	[0x1c] = { FIXED, 4 },  /* ref_sup4 */
	[0x1d] = { OFFSET, 0 }, /* strp_sup */
	[0x1e] = { FIXED, 16 }, /* data16 */
	[0x1f] = { OFFSET, 0 }, /* line_strp */
	[0x20] = { FIXED, 8 },  /* ref_sig8 */
	[FORM_IMPLICIT_CONST] = { FIXED, 0 },
	[0x22] = { PIECES, 0 }, /* loclistx */
	[0x23] = { PIECES, 0 }, /* rnglistx */
	[0x24] = { FIXED, 8 },  /* ref_sup8 */
	[0x25] = { FIXED, 1 },  /* strx1 to strx4 */
	[0x26] = { FIXED, 2 },
	[0x27] = { FIXED, 3 },
	[0x28] = { FIXED, 4 },
	[0x29] = { FIXED, 1 }, /* addrx1 to addrx4 */
	[0x2a] = { FIXED, 2 },
	[0x2b] = { FIXED, 3 },
	[0x2c] = { FIXED, 4 },
};

static struct form
form_numbered(uint64_t number)
{
	enum {
		GNU_ADDR_INDEX = 0x1f01,
		GNU_STR_INDEX,
		GNU_REF_ALT = 0x1f20,
		GNU_STRP_ALT,
	};

	if (number < sizeof(forms) / sizeof(forms[0]))
		return forms[number];
	switch (number) {
	case GNU_ADDR_INDEX:
	case GNU_STR_INDEX:
		return (struct form){ PIECES, 0 };
	case GNU_REF_ALT:
	case GNU_STRP_ALT:
		return (struct form){ OFFSET, 0 };
	default:
		return (struct form){ UNKNOWN, 0 };
	}
}

bool
rest_skip_form(
    struct rest *rest, uint64_t number, const struct form_sizes *sizes)
{
	struct form form = form_numbered(number);

	/* This form says that the real form precedes the value, which may be
	 * INDIRECT again. */
	while (form.kind == INDIRECT) {
		if (!rest_uleb(rest, &number))
			return false;
		form = form_numbered(number);
	}
	switch (form.kind) {
	case FIXED:
		return rest_skip(rest, form.bytes);
	case ADDRESS:
		return rest_skip(rest, sizes->address);
	case OFFSET:
		return rest_skip(rest, sizes->offset);
	case REFERENCE:
		return rest_skip(rest, sizes->reference);
	case PIECES:
		return rest_uleb(rest, &number);
	case BLOCK:
		return rest_skip_block(rest, form.bytes);
	case STRING:
		return rest_skip_string(rest);
	default:
		return false;
	}
}
