/*
 * The driver calls weir itself makes, counted by entry.
 *
 * weir calls the driver through a table of pointers. For a report each of them
 * leads through a few instructions that add one and jump on, whatever the
 * parameters are; without a report there is nothing between.
 */
#include <string.h>

#include "tools/preload/preload.h"

struct counted {
	void *real; /* where to jump; at offset 0 for the instructions below */
	uint64_t calls; /* at offset 8 */
};

#if defined(__x86_64__)

#define COUNT_CODE(name)                                                       \
	__asm__(".text\n"                                                      \
		".p2align 4\n"                                                 \
		".globl count_" #name "\n"                                     \
		".hidden count_" #name "\n"                                    \
		".type count_" #name ", @function\n"                           \
		"count_" #name ":\n"                                           \
		".cfi_startproc\n"                                             \
		"endbr64\n"                                                    \
		"lock incq counted_" #name "+8(%rip)\n"                        \
		"jmpq *counted_" #name "(%rip)\n"                              \
		".cfi_endproc\n"                                               \
		".size count_" #name ", . - count_" #name "\n");

#elif defined(__aarch64__)

#define COUNT_CODE(name)                                                       \
	__asm__(".text\n"                                                      \
		".p2align 4\n"                                                 \
		".globl count_" #name "\n"                                     \
		".hidden count_" #name "\n"                                    \
		".type count_" #name ", %function\n"                           \
		"count_" #name ":\n"                                           \
		".cfi_startproc\n"                                             \
		"hint #34\n"                                                   \
		"adrp x16, counted_" #name "\n"                                \
		"add x16, x16, :lo12:counted_" #name "\n"                      \
		"add x17, x16, #8\n"                                           \
		"1: ldxr x9, [x17]\n"                                          \
		"add x9, x9, #1\n"                                             \
		"stxr w10, x9, [x17]\n"                                        \
		"cbnz w10, 1b\n"                                               \
		"ldr x16, [x16]\n"                                             \
		"br x16\n"                                                     \
		".cfi_endproc\n"                                               \
		".size count_" #name ", . - count_" #name "\n");

#else
#error "tools/preload/count.c knows x86-64 and aarch64"
#endif

/* Hidden rather than static: the instructions name them. */
#define COUNTED(name, version, required, params)                               \
	__attribute__((                                                        \
	    used, visibility("hidden"))) struct counted counted_##name;        \
	__attribute__((visibility("hidden"))) void count_##name(void);         \
	COUNT_CODE(name)
DRIVER_ENTRIES(COUNTED)
#undef COUNTED

struct row {
	const char *name;
	struct counted *counted;
	void (*code)(void);
};

static const struct row rows[] = {
#define COUNT_ROW(name, version, required, params)                             \
	{ #name, &counted_##name, count_##name },
	DRIVER_ENTRIES(COUNT_ROW)
#undef COUNT_ROW
};

/* The row of "cuMemAlloc" for that name and for "cuMemAlloc_v2". */
static const struct row *
row_of(const char *name)
{
	for (size_t i = 0; i < count_entries(); i++) {
		size_t length = strlen(rows[i].name);

		if (strncmp(rows[i].name, name, length) == 0 &&
		    (name[length] == '\0' ||
			strncmp(name + length, "_v", 2) == 0))
			return &rows[i];
	}
	return NULL;
}

void *
count_through(const char *name, void *real)
{
	const struct row *row = row_of(name);

	if (row == NULL || real == NULL)
		return real;
	row->counted->real = real;
	return (void *)row->code;
}

size_t
count_entries(void)
{
	return sizeof(rows) / sizeof(*rows);
}

const char *
count_name(size_t i)
{
	return rows[i].name;
}

uint64_t
count_of(size_t i)
{
	return __atomic_load_n(&rows[i].counted->calls, __ATOMIC_RELAXED);
}
