#include "stacks/python_layout.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "stacks/tuning.h"

/* ---- The versions ------------------------------------------------------ */

/* The unit in which a frame stores its place in the code. */
enum unit { BYTES, PAIRS, ADDRESS };

/* Offsets in bytes, on systems with 64-bit pointers. */
struct layout {
	int minor;       /* the N of version 3.N */
	short in_state;  /* in PyThreadState: the frame, or a pointer to it */
	short in_cframe; /* offset in that; -1: it is the frame itself */
	short back;      /* in a frame: its caller */
	short code;      /* in a frame: its code */
	short at;        /* in a frame: its place in the code */
	short owner;     /* in a frame: its owner; -1: there is no such field */
	short name;      /* in a code: its name */
	short file;      /* in a code: its file */
	short begin;     /* in a code: its first instruction; -1: not needed */
	short ascii;     /* in a text: the first ASCII character */
	short other;     /* in a text: the first character of other kinds */
	enum unit unit;
};

/* clang-format off */
static const struct layout layouts[] = {
	{  9, 24, -1, 24, 32, 104, -1, 112, 104,  -1, 48, 72, BYTES },
	{ 10, 24, -1, 24, 32,  96, -1, 112, 104,  -1, 48, 72, PAIRS },
	{ 11, 56,  8, 48, 32,  56, 69, 120, 112, 184, 48, 72, ADDRESS },
	{ 12, 56,  0,  8,  0,  56, 70, 120, 112, 192, 40, 56, ADDRESS },
	{ 13, 72, -1,  8,  0,  56, 70, 120, 112, 200, 40, 56, ADDRESS },
};
/* clang-format on */

enum {
	OWNED_BY_C = 3, /* the frame stands for a call from C */
	OBJECT_TYPE = 8,
	TEXT_LENGTH = 16,
	TEXT_STATE = 32,
};

/* Bits of a text's state. */
enum { KIND_SHIFT = 2, KIND_BITS = 7, IS_COMPACT = 0x20, IS_ASCII = 0x40 };

static const struct layout *layout;
static struct {
	int (*is_initialized)(void);
	void *(*thread_state)(void);
	int (*line)(const void *code, int at);
	const void *code_type;
	const void *text_type;
} py;

/* Does the layout match the interpreter? */
enum { UNTRIED, RIGHT, WRONG };
static _Atomic int trust = UNTRIED;

/* ---- Finding ----------------------------------------------------------- */

static bool
find_calls(void)
{
	const char *(*version)(void);

	*(void **)&version = dlsym(RTLD_DEFAULT, "Py_GetVersion");
	*(void **)&py.is_initialized = dlsym(RTLD_DEFAULT, "Py_IsInitialized");
	*(void **)&py.thread_state =
	    dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
	*(void **)&py.line = dlsym(RTLD_DEFAULT, "PyCode_Addr2Line");
	py.code_type = dlsym(RTLD_DEFAULT, "PyCode_Type");
	py.text_type = dlsym(RTLD_DEFAULT, "PyUnicode_Type");
	if (version == NULL || py.is_initialized == NULL ||
	    py.thread_state == NULL || py.line == NULL ||
	    py.code_type == NULL || py.text_type == NULL)
		return false;
	const char *text = version();
	/* Objects of a Python without a lock have another header. */
	if (strncmp(text, "3.", 2) != 0 || strstr(text, "free-thread") != NULL)
		return false;
	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
		if (layouts[i].minor == atoi(text + 2))
			layout = &layouts[i];
	return layout != NULL;
}

bool
layout_find(void)
{
	return layout != NULL || (sizeof(void *) == 8 && find_calls());
}

/* ---- Reading ----------------------------------------------------------- */

/* Copy n bytes from an address that may be wrong. */
static bool
read_address(const void *from, void *to, size_t n)
{
	struct iovec here = { to, n };
	struct iovec there = { (void *)(uintptr_t)from, n };

	if (from == NULL)
		return false;
	if (atomic_load_explicit(&trust, memory_order_relaxed) == UNTRIED)
		return process_vm_readv(getpid(), &here, 1, &there, 1, 0) ==
		    (ssize_t)n;
	memcpy(to, from, n);
	return true;
}

static const void *
peek_pointer(const void *object, short offset)
{
	const void *value = NULL;

	if (object == NULL ||
	    !read_address((const char *)object + offset, &value, sizeof(value)))
		return NULL;
	return value;
}

static bool
is_a(const void *object, const void *type)
{
	return peek_pointer(object, OBJECT_TYPE) == type;
}

/* ---- Frames ------------------------------------------------------------ */

bool
layout_begin(struct layout_walk *walk)
{
	*walk = (struct layout_walk){ NULL, NULL, 0 };
	if (layout == NULL || atomic_load(&trust) == WRONG ||
	    py.is_initialized() == 0)
		return false;
	walk->frame = peek_pointer(py.thread_state(), layout->in_state);
	if (layout->in_cframe >= 0)
		walk->frame = peek_pointer(walk->frame, layout->in_cframe);
	return walk->frame != NULL;
}

static bool
stands_for_c(const void *frame)
{
	char owner = 0;

	if (layout->owner < 0)
		return false;
	return read_address((const char *)frame + layout->owner, &owner, 1) &&
	    owner == OWNED_BY_C;
}

/* The place in the code in bytes; -1: at its beginning. */
static int
place_in_code(const void *frame, const void *code)
{
	int index = -1;

	if (layout->unit == ADDRESS) {
		const char *at = peek_pointer(frame, layout->at);
		return at == NULL ?
		    -1 :
		    (int)(at - ((const char *)code + layout->begin));
	}
	if (!read_address(
		(const char *)frame + layout->at, &index, sizeof(index)))
		return -1;
	return layout->unit == PAIRS && index > 0 ? 2 * index : index;
}

/* The bytes are not a frame: stop reading for good. */
static bool
stop_reading(void)
{
	atomic_store(&trust, WRONG);
	return false;
}

bool
layout_next(struct layout_walk *walk)
{
	for (int i = 0; i < PYTHON_STEPS && walk->frame != NULL; i++) {
		const void *frame = walk->frame;
		walk->frame = peek_pointer(frame, layout->back);
		if (stands_for_c(frame))
			continue;
		walk->code = peek_pointer(frame, layout->code);
		if (!is_a(walk->code, py.code_type))
			return stop_reading();
		/* This reads the code and changes no reference count. */
		walk->line =
		    py.line(walk->code, place_in_code(frame, walk->code));
		return true;
	}
	return false;
}

void
layout_end(const struct layout_walk *walk)
{
	int untried = UNTRIED;

	if (walk->code != NULL)
		atomic_compare_exchange_strong(&trust, &untried, RIGHT);
}

/* ---- Texts ------------------------------------------------------------- */

static size_t
put_utf8(uint32_t c, char *to)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 0x3f));
		to[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | (c >> 18 & 7));
	to[1] = (char)(0x80 | (c >> 12 & 0x3f));
	to[2] = (char)(0x80 | (c >> 6 & 0x3f));
	to[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* Convert characters of `kind` bytes each. */
static bool
read_wide(const void *from, size_t n, unsigned kind, char text[LAYOUT_TEXT])
{
	enum { UTF8_MAX = 4 };
	unsigned char bytes[LAYOUT_TEXT * 4];
	size_t length = 0;

	if (n > LAYOUT_TEXT)
		n = LAYOUT_TEXT;
	if (!read_address(from, bytes, n * kind))
		return false;
	for (size_t i = 0; i < n && length + UTF8_MAX < LAYOUT_TEXT; i++) {
		uint32_t c = 0;

		memcpy(&c, bytes + i * kind, kind);
		/* Half of a surrogate pair is not valid in UTF-8. */
		if (c >= 0xd800 && c < 0xe000)
			c = '?';
		length += put_utf8(c, text + length);
	}
	text[length] = '\0';
	return true;
}

static bool
read_python_text(const void *object, char text[LAYOUT_TEXT])
{
	const char *at = object;
	ptrdiff_t length = 0;
	unsigned state = 0;

	if (!is_a(object, py.text_type) ||
	    !read_address(at + TEXT_LENGTH, &length, sizeof(length)) ||
	    !read_address(at + TEXT_STATE, &state, sizeof(state)) ||
	    length < 0 || (state & IS_COMPACT) == 0)
		return false;
	unsigned kind = state >> KIND_SHIFT & KIND_BITS;
	size_t n = (size_t)length;
	if ((state & IS_ASCII) == 0)
		return (kind == 1 || kind == 2 || kind == 4) &&
		    read_wide(at + layout->other, n, kind, text);
	if (n > LAYOUT_TEXT - 1)
		n = LAYOUT_TEXT - 1;
	text[n] = '\0';
	return read_address(at + layout->ascii, text, n);
}

bool
layout_names(
    const void *code, char function[LAYOUT_TEXT], char file[LAYOUT_TEXT])
{
	return (read_python_text(peek_pointer(code, layout->name), function) &&
		   read_python_text(peek_pointer(code, layout->file), file)) ||
	    stop_reading();
}
