/*
 * Arrays, mipmapped arrays and memory of other interfaces, which the driver
 * serves.
 *
 * The driver does not say what an array takes. It is counted by its texels;
 * the driver may take more, to align its rows.
 */
#include "preload/serving/outside.h"

/* ---- Sizes -------------------------------------------------------------- */

enum {
	/* Flags of arrays that take no memory of their own, or later. */
	ARRAY_SPARSE = 0x40,
	ARRAY_DEFERRED = 0x80,
	/* A mipmap's depth is the number of layers, which do not shrink. */
	ARRAY_LAYERED = 1
};

/* Bits of a channel. A compressed format has blocks of 4 x 4 texels, whose bits
 * are those of all channels; an unknown format counts as the widest. */
static unsigned
channel_bits(int format, unsigned *channels)
{
	switch (format) {
	case 0x01: /* 8 bits, without and with a sign */
	case 0x08:
		return 8;
	case 0x02: /* 16 bits, and half precision */
	case 0x09:
	case 0x10:
		return 16;
	case 0xb0: /* NV12: a full plane and two of a quarter */
		*channels = 1;
		return 12;
	case 0x91: /* BC1 and BC4: 8 bytes a block */
	case 0x92:
	case 0x97:
	case 0x98:
		*channels = 1;
		return 4;
	case 0x93: /* the other BC formats: 16 bytes a block */
	case 0x94:
	case 0x95:
	case 0x96:
	case 0x99:
	case 0x9a:
	case 0x9b:
	case 0x9c:
	case 0x9d:
	case 0x9e:
		*channels = 1;
		return 8;
	default:
		if (format >= 0xc0 && format <= 0xc5) /* normalized 8 bits */
			return 8;
		if (format >= 0xc6 && format <= 0xcb) /* and 16 bits */
			return 16;
		return 32;
	}
}

/* Multiply; SIZE_MAX stands for all that is larger. */
static size_t
product_of(size_t a, size_t b)
{
	size_t product;

	return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

static size_t
level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *plan)
{
	unsigned channels = plan->NumChannels;
	unsigned bits = channel_bits(plan->Format, &channels);
	size_t texels = plan->Width;

	texels = product_of(texels, plan->Height > 0 ? plan->Height : 1);
	texels = product_of(texels, plan->Depth > 0 ? plan->Depth : 1);
	bits *= channels;
	texels = product_of(texels, bits);
	return texels == SIZE_MAX ? SIZE_MAX : (texels + 7) / 8;
}

static size_t
halved(size_t n)
{
	return n > 1 ? n / 2 : n;
}

static size_t
array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *wanted, unsigned levels)
{
	CUDA_ARRAY3D_DESCRIPTOR plan = *wanted;
	size_t sum = 0;

	if ((plan.Flags & (ARRAY_SPARSE | ARRAY_DEFERRED)) != 0)
		return 0;
	for (unsigned i = 0; i < levels && i < 64; i++) {
		size_t bytes = level_bytes(&plan);

		if (__builtin_add_overflow(sum, bytes, &sum))
			return SIZE_MAX;
		plan.Width = halved(plan.Width);
		plan.Height = halved(plan.Height);
		if ((plan.Flags & ARRAY_LAYERED) == 0)
			plan.Depth = halved(plan.Depth);
	}
	return sum;
}

/* ---- Calls -------------------------------------------------------------- */

/* A call that the driver is asked again if weir could make room. The claim ends
 * with the name that the driver gave. */
#define MAKE_ARRAY(name, size, space, params, args)                            \
	CUresult name params                                                   \
	{                                                                      \
		struct outside_claim claim;                                    \
		report_call(HOOK_##name);                                      \
		if (out == NULL || wanted == NULL)                             \
			return REAL(name) args;                                \
		if (!outside_begin(&claim, OUTSIDE_arrays, (size), #name))     \
			return CUDA_ERROR_OUT_OF_MEMORY;                       \
		CUresult code = REAL(name) args;                               \
		if (retry_is_due(code))                                        \
			code = REAL(name) args;                                \
		outside_end(&claim, space,                                     \
		    code == CUDA_SUCCESS ? (uintptr_t)*out : 0, code);         \
		return code;                                                   \
	}

static size_t
plane_bytes(const CUDA_ARRAY_DESCRIPTOR *wanted)
{
	const CUDA_ARRAY3D_DESCRIPTOR plan = { .Width = wanted->Width,
		.Height = wanted->Height,
		.Format = wanted->Format,
		.NumChannels = wanted->NumChannels };

	return array_bytes(&plan, 1);
}

MAKE_ARRAY(cuArrayCreate_v2, plane_bytes(wanted), OUTSIDE_ARRAY,
    (CUarray * out, const CUDA_ARRAY_DESCRIPTOR *wanted), (out, wanted))

MAKE_ARRAY(cuArray3DCreate_v2, array_bytes(wanted, 1), OUTSIDE_ARRAY,
    (CUarray * out, const CUDA_ARRAY3D_DESCRIPTOR *wanted), (out, wanted))

MAKE_ARRAY(cuMipmappedArrayCreate, array_bytes(wanted, levels), OUTSIDE_MIPMAP,
    (CUmipmappedArray * out, const CUDA_ARRAY3D_DESCRIPTOR *wanted,
	unsigned levels),
    (out, wanted, levels))

CUresult
cuArrayDestroy(CUarray array)
{
	struct outside_record *record =
	    outside_take(OUTSIDE_ARRAY, (uintptr_t)array);
	CUresult code;

	report_call(HOOK_cuArrayDestroy);
	code = REAL(cuArrayDestroy)(array);
	outside_taken(record, code);
	return code;
}

CUresult
cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	struct outside_record *record =
	    outside_take(OUTSIDE_MIPMAP, (uintptr_t)array);
	CUresult code;

	report_call(HOOK_cuMipmappedArrayDestroy);
	code = REAL(cuMipmappedArrayDestroy)(array);
	outside_taken(record, code);
	return code;
}

CUresult
cuImportExternalMemory(
    CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *wanted)
{
	struct outside_claim claim;
	CUresult code;

	report_call(HOOK_cuImportExternalMemory);
	if (out == NULL || wanted == NULL)
		return REAL(cuImportExternalMemory)(out, wanted);
	if (!outside_begin(&claim, OUTSIDE_external, (size_t)wanted->size,
		"cuImportExternalMemory"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	code = REAL(cuImportExternalMemory)(out, wanted);
	outside_end(&claim, OUTSIDE_EXTERNAL,
	    code == CUDA_SUCCESS ? (uintptr_t)*out : 0, code);
	return code;
}

CUresult
cuDestroyExternalMemory(CUexternalMemory memory)
{
	struct outside_record *record =
	    outside_take(OUTSIDE_EXTERNAL, (uintptr_t)memory);
	CUresult code;

	report_call(HOOK_cuDestroyExternalMemory);
	code = REAL(cuDestroyExternalMemory)(memory);
	outside_taken(record, code);
	return code;
}
