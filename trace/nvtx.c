/*
 * NVTX, version 3: finding a tool's library, and the tables through which it
 * sets the functions that it wants called.
 *
 * The library's entry point gets a function that returns tables by number. One
 * of the tables leads to an array for each module of NVTX. The array has, for
 * each call of the module, the address of a function pointer that the tool may
 * set. A pointer that it does not set stays NULL and is not called.
 */
#include <weir/nvtx.h>

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os.h"

/* The numbers and layouts of the injection interface. */
enum { TABLE_CALLBACKS = 1, TABLE_VERSION = 3 };
enum { MODULE_CORE = 1, MODULE_CUDA = 2, MODULE_CUDART = 4, MODULE_CORE2 = 5 };
enum { MODULES = 7, CALLS = 16, VERSION = 3 };

/* Calls of the modules, as indices of their arrays. */
enum {
	CORE_MARK = 2,
	CORE_RANGE_START = 5,
	CORE_RANGE_END = 7,
	CORE_RANGE_PUSH = 9,
	CORE_RANGE_POP = 11,
	CORE_NAME_THREAD = 14,
	CUDA_NAME_STREAM = 5,
	CUDART_NAME_STREAM = 3,
	CORE2_RESOURCE_CREATE = 6,
	CORE2_RESOURCE_DESTROY = 7,
};

enum { RESOURCE_POINTER = 1 << 16 | 1, MESSAGE_ASCII = 1 };

typedef void (*function)(void);

/* The number of calls of each module, plus one. */
static const unsigned calls_of[MODULES] = { 0, 16, 9, 15, 7, 16, 7 };
static function functions[MODULES][CALLS + 1];
static function *arrays[MODULES][CALLS + 1];

struct callbacks_table {
	size_t struct_size;
	int (*get_module)(int module, function ***array, unsigned *size);
};

struct version_table {
	size_t struct_size;
	uint32_t version;
	uint32_t reserved;
	void (*set_injection_version)(uint32_t version);
};

struct resource {
	uint16_t version;
	uint16_t size;
	int32_t type;
	uint64_t identifier;
	int32_t message_type;
	const char *message;
};

_Static_assert(sizeof(struct resource) == 32, "as NVTX has it");

/* ---- What a tool is given ----------------------------------------------- */

static int
get_module(int module, function ***array, unsigned *size)
{
	if (module < MODULE_CORE || module >= MODULES)
		return 0;
	for (unsigned i = 1; i < calls_of[module]; i++)
		arrays[module][i] = &functions[module][i];
	if (array != NULL)
		*array = arrays[module];
	if (size != NULL)
		*size = calls_of[module];
	return 1;
}

static void
set_injection_version(uint32_t version)
{
	(void)version;
}

static const void *
get_table(uint32_t id)
{
	static const struct callbacks_table callbacks = { sizeof(callbacks),
		get_module };
	static const struct version_table version = { sizeof(version), VERSION,
		0, set_injection_version };

	if (id == TABLE_CALLBACKS)
		return &callbacks;
	return id == TABLE_VERSION ? &version : NULL;
}

/* ---- Finding it --------------------------------------------------------- */

enum { LOOKED_NOT, LOOKING, LOOKED_IN_VAIN, THERE };
static atomic_int state;

typedef int (*entry)(const void *(*get_table)(uint32_t id));

/* ISO C has no cast from void * to a function pointer; POSIX gives both the
 * same form. */
static entry
find_injection(void *library, const char *name)
{
	void *symbol = dlsym(library, name);
	entry found;

	memcpy(&found, &symbol, sizeof(found));
	return found;
}

static entry
find_tool(void)
{
	/* Ignored in setuid programs, because it names code to be run. */
	const char *path = secure_getenv("NVTX_INJECTION64_PATH");
	void *library;
	entry found;

	if (path == NULL || *path == '\0')
		return find_injection(
		    RTLD_DEFAULT, "InitializeInjectionNvtx2Preinject");
	library = dlopen(path, RTLD_LAZY);
	if (library == NULL) {
		log_write(LOG_WARN, "NVTX_INJECTION64_PATH: %s", dlerror());
		return NULL;
	}
	found = find_injection(library, "InitializeInjectionNvtx2");
	if (found == NULL)
		dlclose(library);
	return found;
}

/* No lock is held, because a tool may call weir. */
static bool
look_for_tool(void)
{
	int now = LOOKED_NOT;
	entry found;

	if (!atomic_compare_exchange_strong(&state, &now, LOOKING))
		return now == THERE;
	found = find_tool();
	now = found != NULL && found(get_table) != 0 ? THERE : LOOKED_IN_VAIN;
	atomic_store_explicit(&state, now, memory_order_release);
	return now == THERE;
}

static bool
tool_is_there(void)
{
	int now = atomic_load_explicit(&state, memory_order_acquire);

	return now == THERE || (now == LOOKED_NOT && look_for_tool());
}

/* The function that the tool has set for a call, or NULL. */
static function
function_for(int module, int call)
{
	return tool_is_there() ? functions[module][call] : NULL;
}

/* ---- Calls -------------------------------------------------------------- */

bool
weir_nvtx_active(void)
{
	return tool_is_there();
}

void
weir_nvtx_mark(const char *text)
{
	if (os_forked())
		return;
	function f = function_for(MODULE_CORE, CORE_MARK);

	if (f != NULL && text != NULL)
		((void (*)(const char *))f)(text);
}

int
weir_nvtx_range_push(const char *text)
{
	function f = function_for(MODULE_CORE, CORE_RANGE_PUSH);

	if (f == NULL || text == NULL)
		return -2;
	return ((int (*)(const char *))f)(text);
}

int
weir_nvtx_range_pop(void)
{
	function f = function_for(MODULE_CORE, CORE_RANGE_POP);

	return f != NULL ? ((int (*)(void))f)() : -2;
}

uint64_t
weir_nvtx_range_start(const char *text)
{
	function f = function_for(MODULE_CORE, CORE_RANGE_START);

	if (f == NULL || text == NULL)
		return 0;
	return ((uint64_t(*)(const char *))f)(text);
}

void
weir_nvtx_range_end(uint64_t range)
{
	if (os_forked())
		return;
	function f = function_for(MODULE_CORE, CORE_RANGE_END);

	if (f != NULL && range != 0)
		((void (*)(uint64_t))f)(range);
}

/* Tools register the naming of streams with the driver's module or with the
 * runtime's. */
void
weir_nvtx_name_stream(weir_stream stream, const char *name)
{
	if (os_forked())
		return;
	function f = function_for(MODULE_CUDA, CUDA_NAME_STREAM);

	if (f == NULL)
		f = function_for(MODULE_CUDART, CUDART_NAME_STREAM);
	if (f != NULL && name != NULL)
		((void (*)(weir_stream, const char *))f)(stream, name);
}

void
weir_nvtx_name_thread(const char *name)
{
	if (os_forked())
		return;
	function f = function_for(MODULE_CORE, CORE_NAME_THREAD);

	if (f != NULL && name != NULL)
		((void (*)(uint32_t, const char *))f)(
		    (uint32_t)syscall(SYS_gettid), name);
}

void *
weir_nvtx_name_memory(const void *ptr, const char *name)
{
	function f = function_for(MODULE_CORE2, CORE2_RESOURCE_CREATE);
	struct resource resource = { .version = VERSION,
		.size = sizeof(resource),
		.type = RESOURCE_POINTER,
		.identifier = (uintptr_t)ptr,
		.message_type = MESSAGE_ASCII,
		.message = name };

	if (f == NULL || name == NULL)
		return NULL;
	return ((void *(*)(void *, struct resource *))f)(NULL, &resource);
}

void
weir_nvtx_forget(void *named)
{
	if (os_forked())
		return;
	function f = function_for(MODULE_CORE2, CORE2_RESOURCE_DESTROY);

	if (f != NULL && named != NULL)
		((void (*)(void *))f)(named);
}
