/*
 * The ranges that a program reports to profilers through NVTX, in the history.
 *
 * Note [NVTX into the history]
 *
 * A program with NVTX looks for a tool once, in NVTX_INJECTION64_PATH. `weir
 * run --history` names this library there, unless the user has another tool,
 * and so does the option pool_ranges. NVTX calls the entry below, which sets
 * the functions it wants to be called. A range becomes two annotations of the
 * history, as weir_annotate() makes them, and a mark becomes two at one moment.
 * Names are copied, because NVTX may free them when the call returns.
 *
 * The end of a range does not say its name, so the names of open ranges are
 * stored: up to NVTX_LEVELS pushed ranges of a thread, and up to NVTX_OPEN
 * ranges that any thread may end. Further ranges are left out completely, and
 * those of a forked child, which has no history.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/trace.h>

#include "base/os.h"
#include "preload/lock.h"
#include "preload/preload.h"
#include "preload/tuning.h"
#include "trace/history.h"

#define SHOWN __attribute__((visibility("default")))

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

/* Texts that the program has registered; a handle is the address of one. */
static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_TABLE);
static char *strings[NVTX_STRINGS];
static unsigned string_count;

/* Ranges that any thread may end; a name of "" marks an unused slot. */
static struct {
	char name[NVTX_NAME];
	uint32_t turn; /* how often the slot has been used */
} open_ranges[NVTX_OPEN];

/* The pushed ranges of a thread. */
struct stack {
	unsigned depth; /* ranges beyond NVTX_LEVELS have no name here */
	char names[NVTX_LEVELS][NVTX_NAME];
	struct range_routes *routes[NVTX_LEVELS];
};

static PRELOAD_THREAD struct stack *stack;
static pthread_key_t stack_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_key;

/* A thread ends, perhaps within ranges. */
static void
end_stack(void *ended)
{
	struct stack *own = ended;

	for (int i = NVTX_LEVELS - 1; i >= 0; i--)
		range_pools_leave(own->routes[i]);
	free(own);
	stack = NULL;
}

static void
make_stack_key(void)
{
	has_key = pthread_key_create(&stack_key, end_stack) == 0;
}

/* NULL without memory: then the thread's ranges are left out. */
static struct stack *
own_stack(void)
{
	pthread_once(&once, make_stack_key);
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
copy_range_name(char name[NVTX_NAME], const char *text)
{
	snprintf(name, NVTX_NAME, "%s", text != NULL ? text : "");
	if (name[0] == '\0')
		strcpy(name, "?");
}

static const char *
message_text(const struct attributes *attributes)
{
	if (attributes == NULL || attributes->size < sizeof(*attributes) ||
	    (attributes->message_type != MESSAGE_ASCII &&
		attributes->message_type != MESSAGE_REGISTERED))
		return NULL;
	return attributes->message;
}

/* ---- The history --------------------------------------------------------- */

static void
annotate_range(const char *name, enum weir_stage stage)
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
	char name[NVTX_NAME];

	copy_range_name(name, text);
	annotate_range(name, WEIR_STAGE_START);
	annotate_range(name, WEIR_STAGE_END);
}

static void
mark_ex(const struct attributes *attributes)
{
	mark(message_text(attributes));
}

static void
domain_mark_ex(void *domain, const struct attributes *attributes)
{
	(void)domain;
	mark_ex(attributes);
}

static int
push_range(const char *text)
{
	struct stack *own = own_stack();

	if (own == NULL)
		return -1;
	if (own->depth < NVTX_LEVELS) {
		copy_range_name(own->names[own->depth], text);
		annotate_range(own->names[own->depth], WEIR_STAGE_START);
		own->routes[own->depth] =
		    range_pools_enter(own->names[own->depth]);
	}
	return (int)own->depth++;
}

static int
push_ex(const struct attributes *attributes)
{
	return push_range(message_text(attributes));
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
	if (own->depth < NVTX_LEVELS) {
		range_pools_leave(own->routes[own->depth]);
		own->routes[own->depth] = NULL;
		annotate_range(own->names[own->depth], WEIR_STAGE_END);
	}
	return (int)own->depth;
}

static int
domain_pop(void *domain)
{
	(void)domain;
	return pop();
}

/* A range's number is made of its slot, counted from 1, and of how often the
 * slot was used. */
static uint64_t
range_start(const char *text)
{
	char name[NVTX_NAME];
	uint64_t number = 0;

	if (os_forked())
		return 0;
	copy_range_name(name, text);
	preload_lock(&lock);
	for (unsigned i = 0; i < NVTX_OPEN && number == 0; i++) {
		if (open_ranges[i].name[0] != '\0')
			continue;
		memcpy(open_ranges[i].name, name, NVTX_NAME);
		number = (uint64_t)++open_ranges[i].turn << 32 | (i + 1);
	}
	preload_unlock(&lock);
	if (number != 0)
		annotate_range(name, WEIR_STAGE_START);
	return number;
}

static uint64_t
start_ex(const struct attributes *attributes)
{
	return range_start(message_text(attributes));
}

static uint64_t
domain_start_ex(void *domain, const struct attributes *attributes)
{
	(void)domain;
	return start_ex(attributes);
}

static void
range_end(uint64_t number)
{
	char name[NVTX_NAME] = "";
	uint64_t i = (uint32_t)number;

	if (i == 0 || i > NVTX_OPEN || os_forked())
		return;
	preload_lock(&lock);
	if (open_ranges[i - 1].turn == number >> 32) {
		memcpy(name, open_ranges[i - 1].name, NVTX_NAME);
		open_ranges[i - 1].name[0] = '\0';
	}
	preload_unlock(&lock);
	if (name[0] != '\0')
		annotate_range(name, WEIR_STAGE_END);
}

static void
domain_end(void *domain, uint64_t number)
{
	(void)domain;
	range_end(number);
}

/* NULL: events with this handle have no name. */
static const char *
register_string(void *domain, const char *text)
{
	const char *kept = NULL;

	(void)domain;
	if (os_forked())
		return NULL;
	preload_lock(&lock);
	for (unsigned i = 0; i < string_count && kept == NULL; i++)
		if (text != NULL && strncmp(strings[i], text, NVTX_NAME) == 0)
			kept = strings[i];
	if (kept == NULL && text != NULL && string_count < NVTX_STRINGS) {
		strings[string_count] = strndup(text, NVTX_NAME);
		kept = strings[string_count];
		string_count += kept != NULL;
	}
	preload_unlock(&lock);
	return kept;
}

/* All domains are treated as one; NULL would mean no domain. */
static void *
create_domain(const char *name)
{
	(void)name;
	return strings;
}

/* ---- The entry ----------------------------------------------------------- */

static void
fill_calls(
    const struct callbacks *callbacks, int module, unsigned call, function f)
{
	function **array = NULL;
	unsigned size = 0;

	if (callbacks->get_module(module, &array, &size) == 1 && call < size)
		*array[call] = f;
}

SHOWN int InitializeInjectionNvtx2(const void *(*get_table)(uint32_t id));

/* Returns 1: the tool is present. A program calls it once, before its first
 * event. */
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
		{ MODULE_CORE, CORE_START, (function)range_start },
		{ MODULE_CORE, CORE_END, (function)range_end },
		{ MODULE_CORE, CORE_PUSH_EX, (function)push_ex },
		{ MODULE_CORE, CORE_PUSH, (function)push_range },
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
		fill_calls(
		    callbacks, wanted[i].module, wanted[i].call, wanted[i].f);
	return 1;
}
