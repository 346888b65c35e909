/*
 * The ranges that a program tells profilers by NVTX, in the history.
 *
 * Note [NVTX into the history]
 *
 * A program with NVTX looks for a tool once, by NVTX_INJECTION64_PATH. `weir
 * run --history` names this library there, unless the user has a tool already;
 * the entry below then says which calls it wants. A range becomes two
 * annotations of the history, as weir_annotate() makes them, and a mark two at
 * one moment. Names are copied: NVTX lets them go when the call returns.
 *
 * The end of a range has no name of its own, so the names of open ranges are
 * kept: of a thread those pushed, up to LEVELS deep, and up to OPEN that any
 * thread may end. Ranges beyond that are left out whole.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/trace.h>

#include "tools/preload/preload.h"
#include "trace/history.h"

#define SHOWN __attribute__((visibility("default")))

enum { NAME = 120, LEVELS = 32, OPEN = 256, STRINGS = 4096 };

/* ---- The interface of NVTX, version 3 ------------------------------------ */

enum { TABLE_CALLBACKS = 1, MODULE_CORE = 1, MODULE_CORE2 = 5 };

enum {
	CORE_MARK_EX = 1,
	CORE_MARK = 2,
	CORE_START_EX = 4,
	CORE_START = 5,
	CORE_END = 7,
	CORE_PUSH_EX = 8,
	CORE_PUSH = 9,
	CORE_POP = 11,
	CORE2_MARK_EX = 1,
	CORE2_START_EX = 2,
	CORE2_END = 3,
	CORE2_PUSH_EX = 4,
	CORE2_POP = 5,
	CORE2_REGISTER = 10,
	CORE2_CREATE = 12,
};

enum { MESSAGE_ASCII = 1, MESSAGE_REGISTERED = 3 };

struct attributes {
	uint16_t version;
	uint16_t size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type;
	int32_t reserved;
	uint64_t payload;
	int32_t message_type;
	const char *message;
};

_Static_assert(sizeof(struct attributes) == 48, "as NVTX has it");

typedef void (*function)(void);

struct callbacks {
	size_t struct_size;
	int (*get_module)(int module, function ***array, unsigned *size);
};

/* ---- Names --------------------------------------------------------------- */

/* Texts that the program has registered; a handle is one of them. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char *strings[STRINGS];
static unsigned string_count;

/* Ranges that any thread may end; "" is a free place. */
static struct {
	char name[NAME];
	uint32_t turn; /* how often the place has been used */
} open_ranges[OPEN];

/* The pushed ranges of a thread. */
struct stack {
	unsigned depth; /* more than LEVELS: without names */
	char names[LEVELS][NAME];
};

static PRELOAD_THREAD struct stack *stack;
static pthread_key_t stack_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_key;

static void
make_key(void)
{
	has_key = pthread_key_create(&stack_key, free) == 0;
}

/* NULL without memory: then ranges of the thread are not told. */
static struct stack *
own_stack(void)
{
	pthread_once(&once, make_key);
	if (stack != NULL || !has_key)
		return stack;
	stack = calloc(1, sizeof(*stack));
	if (stack != NULL && pthread_setspecific(stack_key, stack) != 0) {
		free(stack);
		stack = NULL;
	}
	return stack;
}

static void
copy_name(char name[NAME], const char *text)
{
	snprintf(name, NAME, "%s", text != NULL ? text : "");
	if (name[0] == '\0')
		strcpy(name, "?");
}

static const char *
text_of(const struct attributes *attributes)
{
	if (attributes == NULL || attributes->size < sizeof(*attributes) ||
	    (attributes->message_type != MESSAGE_ASCII &&
		attributes->message_type != MESSAGE_REGISTERED))
		return NULL;
	return attributes->message;
}

/* ---- The history --------------------------------------------------------- */

static void
note(const char *name, enum weir_stage stage)
{
	CUdevice device;

	if (!history_is_kept() || !gate_started())
		return;
	gate_enter_weir();
	if (real_driver()->cuCtxGetDevice(&device) != CUDA_SUCCESS)
		device = 0;
	weir_annotate(name, stage, device);
	gate_leave_weir();
}

/* ---- Calls --------------------------------------------------------------- */

static void
mark(const char *text)
{
	char name[NAME];

	copy_name(name, text);
	note(name, WEIR_STAGE_START);
	note(name, WEIR_STAGE_END);
}

static void
mark_ex(const struct attributes *attributes)
{
	mark(text_of(attributes));
}

static void
domain_mark_ex(void *domain, const struct attributes *attributes)
{
	(void)domain;
	mark_ex(attributes);
}

static int
push(const char *text)
{
	struct stack *own = own_stack();

	if (own == NULL)
		return -1;
	if (own->depth < LEVELS) {
		copy_name(own->names[own->depth], text);
		note(own->names[own->depth], WEIR_STAGE_START);
	}
	return (int)own->depth++;
}

static int
push_ex(const struct attributes *attributes)
{
	return push(text_of(attributes));
}

static int
domain_push_ex(void *domain, const struct attributes *attributes)
{
	(void)domain;
	return push_ex(attributes);
}

static int
pop(void)
{
	struct stack *own = own_stack();

	if (own == NULL || own->depth == 0)
		return -1;
	own->depth--;
	if (own->depth < LEVELS)
		note(own->names[own->depth], WEIR_STAGE_END);
	return (int)own->depth;
}

static int
domain_pop(void *domain)
{
	(void)domain;
	return pop();
}

/* A range's number: the place, counted from 1, and how often it was used. */
static uint64_t
start(const char *text)
{
	char name[NAME];
	uint64_t number = 0;

	copy_name(name, text);
	pthread_mutex_lock(&mutex);
	for (unsigned i = 0; i < OPEN && number == 0; i++) {
		if (open_ranges[i].name[0] != '\0')
			continue;
		memcpy(open_ranges[i].name, name, NAME);
		number = (uint64_t)++open_ranges[i].turn << 32 | (i + 1);
	}
	pthread_mutex_unlock(&mutex);
	if (number != 0)
		note(name, WEIR_STAGE_START);
	return number;
}

static uint64_t
start_ex(const struct attributes *attributes)
{
	return start(text_of(attributes));
}

static uint64_t
domain_start_ex(void *domain, const struct attributes *attributes)
{
	(void)domain;
	return start_ex(attributes);
}

static void
end(uint64_t number)
{
	char name[NAME] = "";
	uint64_t i = (uint32_t)number;

	if (i == 0 || i > OPEN)
		return;
	pthread_mutex_lock(&mutex);
	if (open_ranges[i - 1].turn == number >> 32) {
		memcpy(name, open_ranges[i - 1].name, NAME);
		open_ranges[i - 1].name[0] = '\0';
	}
	pthread_mutex_unlock(&mutex);
	if (name[0] != '\0')
		note(name, WEIR_STAGE_END);
}

static void
domain_end(void *domain, uint64_t number)
{
	(void)domain;
	end(number);
}

/* NULL: events with it have no name. */
static const char *
register_string(void *domain, const char *text)
{
	const char *kept = NULL;

	(void)domain;
	pthread_mutex_lock(&mutex);
	for (unsigned i = 0; i < string_count && kept == NULL; i++)
		if (text != NULL && strncmp(strings[i], text, NAME) == 0)
			kept = strings[i];
	if (kept == NULL && text != NULL && string_count < STRINGS) {
		strings[string_count] = strndup(text, NAME);
		kept = strings[string_count];
		string_count += kept != NULL;
	}
	pthread_mutex_unlock(&mutex);
	return kept;
}

/* All domains are one here; NULL would be taken for none. */
static void *
create_domain(const char *name)
{
	(void)name;
	return strings;
}

/* ---- The entry ----------------------------------------------------------- */

static void
fill(const struct callbacks *callbacks, int module, unsigned call, function f)
{
	function **array = NULL;
	unsigned size = 0;

	if (callbacks->get_module(module, &array, &size) == 1 && call < size)
		*array[call] = f;
}

SHOWN int InitializeInjectionNvtx2(const void *(*get_table)(uint32_t id));

/* 1: the tool is there. A program calls it once, before its first event. */
int
InitializeInjectionNvtx2(const void *(*get_table)(uint32_t id))
{
	static const struct {
		int module;
		unsigned call;
		function f;
	} wanted[] = {
		{ MODULE_CORE, CORE_MARK_EX, (function)mark_ex },
		{ MODULE_CORE, CORE_MARK, (function)mark },
		{ MODULE_CORE, CORE_START_EX, (function)start_ex },
		{ MODULE_CORE, CORE_START, (function)start },
		{ MODULE_CORE, CORE_END, (function)end },
		{ MODULE_CORE, CORE_PUSH_EX, (function)push_ex },
		{ MODULE_CORE, CORE_PUSH, (function)push },
		{ MODULE_CORE, CORE_POP, (function)pop },
		{ MODULE_CORE2, CORE2_MARK_EX, (function)domain_mark_ex },
		{ MODULE_CORE2, CORE2_START_EX, (function)domain_start_ex },
		{ MODULE_CORE2, CORE2_END, (function)domain_end },
		{ MODULE_CORE2, CORE2_PUSH_EX, (function)domain_push_ex },
		{ MODULE_CORE2, CORE2_POP, (function)domain_pop },
		{ MODULE_CORE2, CORE2_REGISTER, (function)register_string },
		{ MODULE_CORE2, CORE2_CREATE, (function)create_domain },
	};
	const struct callbacks *callbacks =
	    get_table != NULL ? get_table(TABLE_CALLBACKS) : NULL;

	if (callbacks == NULL || callbacks->struct_size < sizeof(*callbacks))
		return 0;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		fill(callbacks, wanted[i].module, wanted[i].call, wanted[i].f);
	return 1;
}
