/*
 * A tool's library, as NVTX_INJECTION64_PATH names it: it writes down each
 * call, one a line, and nvtx_calls() returns the lines.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))

typedef void (*function)(void);

struct callbacks {
	size_t struct_size;
	int (*get_module)(int module, function ***array, unsigned *size);
};

struct version {
	size_t struct_size;
	uint32_t version;
};

struct resource {
	uint16_t version, size;
	int32_t type;
	uint64_t identifier;
	int32_t message_type;
	const char *message;
};

static char calls[4096];
static int level;

static void
note(const char *format, ...)
{
	size_t at = strlen(calls);
	va_list args;

	va_start(args, format);
	vsnprintf(calls + at, sizeof(calls) - at, format, args);
	va_end(args);
}

SHOWN const char *
nvtx_calls(void)
{
	return calls;
}

static void
mark(const char *text)
{
	note("mark %s\n", text);
}

static int
push(const char *text)
{
	note("push %s\n", text);
	return level++;
}

static int
pop(void)
{
	note("pop\n");
	return --level;
}

static uint64_t
start(const char *text)
{
	note("start %s\n", text);
	return 77;
}

static void
end(uint64_t range)
{
	note("end %llu\n", (unsigned long long)range);
}

static void
name_thread(uint32_t thread, const char *name)
{
	note("thread %s %s\n", thread != 0 ? "some" : "none", name);
}

static void
name_stream(void *stream, const char *name)
{
	note("stream %p %s\n", stream, name);
}

static void *
create(void *domain, const struct resource *resource)
{
	note("resource %p version %d size %d type %x id %llx %s\n", domain,
	    resource->version, resource->size, (unsigned)resource->type,
	    (unsigned long long)resource->identifier, resource->message);
	return calls;
}

static void
destroy(void *resource)
{
	note("destroy %s\n", resource == calls ? "it" : "another");
}

static void
fill(const struct callbacks *callbacks, int module, unsigned call, function f)
{
	function **array = NULL;
	unsigned size = 0;

	if (callbacks->get_module(module, &array, &size) != 1 || call >= size ||
	    array[0] != NULL)
		abort();
	*array[call] = f;
}

SHOWN int
InitializeInjectionNvtx2(const void *(*get_table)(uint32_t id))
{
	const struct callbacks *callbacks = get_table(1);
	const struct version *version = get_table(3);

	if (getenv("NVTX_TOOL_REFUSES") != NULL)
		return 0;
	if (callbacks == NULL || callbacks->struct_size < sizeof(*callbacks) ||
	    version == NULL || version->version != 3 || get_table(2) != NULL ||
	    callbacks->get_module(0, NULL, NULL) != 0 ||
	    callbacks->get_module(7, NULL, NULL) != 0)
		abort();
	fill(callbacks, 1, 2, (function)mark);
	fill(callbacks, 1, 5, (function)start);
	fill(callbacks, 1, 7, (function)end);
	fill(callbacks, 1, 9, (function)push);
	fill(callbacks, 1, 11, (function)pop);
	fill(callbacks, 1, 14, (function)name_thread);
	if (getenv("NVTX_TOOL_RUNTIME") != NULL)
		fill(callbacks, 4, 3, (function)name_stream);
	else
		fill(callbacks, 2, 5, (function)name_stream);
	fill(callbacks, 5, 6, (function)create);
	fill(callbacks, 5, 7, (function)destroy);
	return 1;
}
