/*
 * The names and sizes of element types.
 */
#include <string.h>

#include "base/status.h"
#include "tensor/element.h"

static const char *const names[] = { [WEIR_DTYPE_NONE] = "none",
#define DTYPE_NAME(name, text, bytes) [name] = (text),
	WEIR_DTYPES(DTYPE_NAME)
#undef DTYPE_NAME
};

#define DTYPE_SIZE(name, text, bytes) [name] = (bytes),
static const uint8_t sizes[] = { WEIR_DTYPES(DTYPE_SIZE) };
#undef DTYPE_SIZE

enum { DTYPES = sizeof(names) / sizeof(names[0]) };

size_t
weir_dtype_size(enum weir_dtype dtype)
{
	return (unsigned)dtype < DTYPES ? sizes[dtype] : 0;
}

const char *
weir_dtype_name(enum weir_dtype dtype)
{
	return (unsigned)dtype < DTYPES ? names[dtype] : "none";
}

enum weir_status
weir_dtype_find(const char *name, enum weir_dtype *out)
{
	if (name == NULL || out == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_dtype_find: name or out is NULL");
	for (int i = WEIR_DTYPE_NONE + 1; i < DTYPES; i++) {
		if (strcmp(names[i], name) == 0) {
			*out = (enum weir_dtype)i;
			return WEIR_OK;
		}
	}
	return status_set(
	    WEIR_EINVAL, "weir_dtype_find: there is no type '%.100s'", name);
}
