/*
 * The writer of kernels' text: registers, loads and stores.
 */
#include <stdarg.h>
#include <stdio.h>

#include "tensor/element.h"
#include "tensor/ptx_parts.h"

void
ptx_put(struct ptx_writer *w, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(w->text + w->at, w->size - w->at, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= w->size - w->at)
		w->full = true;
	else
		w->at += (size_t)n;
}

int
ptx_fresh(struct ptx_writer *w)
{
	if (w->next == PTX_REGISTERS - 1)
		w->full = true;
	else
		w->next++;
	return w->next;
}

/* ---- Loads and stores --------------------------------------------------- */

static struct ptx_form
form_of_unit(unsigned unit)
{
	switch (unit) {
	case 1:
		return (struct ptx_form){ "u8", 'r', 1 };
	case 2:
		return (struct ptx_form){ "u16", 'r', 1 };
	case 4:
		return (struct ptx_form){ "b32", 'r', 1 };
	case 8:
		return (struct ptx_form){ "b64", 'l', 1 };
	default:
		return (struct ptx_form){ "b64", 'l', 2 };
	}
}

static struct ptx_form
form_of_dtype(enum weir_dtype dtype)
{
	struct element_type type = element_type(dtype);
	unsigned parts = type.complex ? 2 : 1;

	if (type.kind == ELEMENT_FLOAT)
		return (struct ptx_form){ "f32", 'f', parts };
	if (type.kind == ELEMENT_DOUBLE)
		return (struct ptx_form){ "f64", 'd', parts };
	switch (dtype) {
	case WEIR_FLOAT16:
		return (struct ptx_form){ "b16", 'h', 1 };
	case WEIR_INT8:
		return (struct ptx_form){ "s8", 'r', 1 };
	case WEIR_INT16:
		return (struct ptx_form){ "s16", 'r', 1 };
	case WEIR_INT32:
		return (struct ptx_form){ "s32", 'r', 1 };
	default:
		return form_of_unit(type.bytes);
	}
}

struct ptx_form
ptx_form_of(const struct ptx_kernel *kernel, bool to)
{
	if (kernel->unit > 0)
		return form_of_unit(kernel->unit);
	return form_of_dtype(to ? kernel->to_dtype : kernel->from_dtype);
}

/* Load one element at an address, if the predicate is true. */
struct ptx_raw
ptx_load(struct ptx_writer *w, struct ptx_form form, int predicate, int address)
{
	struct ptx_raw raw = { { ptx_fresh(w),
	    form.parts == 2 ? ptx_fresh(w) : -1 } };

	ptx_put(w, "\t@%%p%d ld.global", predicate);
	if (form.parts == 2)
		ptx_put(w, ".v2.%s {%%%c%d, %%%c%d}, [%%l%d];\n", form.type,
		    form.letter, raw.reg[0], form.letter, raw.reg[1], address);
	else
		ptx_put(w, ".%s %%%c%d, [%%l%d];\n", form.type, form.letter,
		    raw.reg[0], address);
	return raw;
}

void
ptx_store(struct ptx_writer *w, struct ptx_form form, int predicate,
    int address, struct ptx_raw raw)
{
	ptx_put(w, "\t@%%p%d st.global", predicate);
	if (form.parts == 2)
		ptx_put(w, ".v2.%s [%%l%d], {%%%c%d, %%%c%d};\n", form.type,
		    address, form.letter, raw.reg[0], form.letter, raw.reg[1]);
	else
		ptx_put(w, ".%s [%%l%d], %%%c%d;\n", form.type, address,
		    form.letter, raw.reg[0]);
}

void
ptx_access_group(struct ptx_writer *w, struct ptx_form form, bool is_load,
    int predicate, int address, const struct ptx_group *group)
{
	bool wide = form.letter == 'd' || form.letter == 'l';
	int step = wide ? 2 : group->n;

	for (int i = 0; i < group->n; i += step) {
		ptx_put(w, "\t@%%p%d %s.global.v%d.%s ", predicate,
		    is_load ? "ld" : "st", step, form.type);
		if (!is_load)
			ptx_put(w, "[%%l%d+%d], ", address, i * 8);
		for (int j = 0; j < step; j++)
			ptx_put(w, "%s%%%c%d", j == 0 ? "{" : ", ", form.letter,
			    group->raw[i + j].reg[0]);
		if (is_load)
			ptx_put(w, "}, [%%l%d+%d];\n", address, i * 8);
		else
			ptx_put(w, "};\n");
	}
}
