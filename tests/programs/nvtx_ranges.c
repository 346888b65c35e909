/*
 * A program that emits ranges by NVTX, with a client that is written from the
 * interface's description: it asks the tool of NVTX_INJECTION64_PATH for the
 * calls that the tool wants, and makes those. Prints the tool's answers.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cuda.h"

typedef void (*function)(void);
typedef int (*entry)(const void *(*get_table)(uint32_t id));

struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const char *message;
};

enum { CORE = 1, DOMAINS = 5, CALLS = 17 };

static function functions[7][CALLS];
static function *arrays[7][CALLS];

static int
get_module(int module, function ***array, unsigned *size)
{
	if (module != CORE && module != DOMAINS)
		return 0;
	for (int i = 1; i < 16; i++)
		arrays[module][i] = &functions[module][i];
	*array = arrays[module];
	*size = 16;
	return 1;
}

static const void *
get_table(uint32_t id)
{
	static const struct {
		size_t size;
		int (*get_module)(int, function ***, unsigned *);
	} callbacks = { sizeof(callbacks), get_module };

	return id == 1 ? &callbacks : NULL;
}

static void
load_tool(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	void *library = path != NULL ? dlopen(path, RTLD_LAZY) : NULL;
	void *symbol =
	    library != NULL ? dlsym(library, "InitializeInjectionNvtx2") : NULL;
	entry found;

	memcpy(&found, &symbol, sizeof(found));
	printf("tool %d\n", found != NULL ? found(get_table) : -1);
	if (functions[CORE][9] == NULL)
		exit(0);
}

static int
push(const char *text)
{
	char *copy = strdup(text); /* invalid after the call */
	int level = ((int (*)(const char *))functions[CORE][9])(copy);

	free(copy);
	return level;
}

static int
pop(void)
{
	return ((int (*)(void))functions[CORE][11])();
}

static void
push_with_attributes(void)
{
	struct attributes about = { .version = 3, .size = sizeof(about) };
	void *domain =
	    ((void *(*)(const char *))functions[DOMAINS][12])("mine");
	const char *name =
	    ((const char *(*)(void *, const char *))functions[DOMAINS][10])(
		domain, "registered");

	about.message_type = 3;
	about.message = name;
	((int (*)(void *, struct attributes *))functions[DOMAINS][4])(
	    domain, &about);
	about.message_type = 1;
	about.message = "described";
	((void (*)(void *, struct attributes *))functions[DOMAINS][1])(
	    domain, &about);
	((int (*)(void *))functions[DOMAINS][5])(domain);
}

/* Another thread cannot end a range of this one, and has no ranges. */
static void *
end_elsewhere(void *range)
{
	printf("elsewhere %d\n", pop());
	((void (*)(uint64_t))functions[CORE][7])(*(uint64_t *)range);
	return NULL;
}

static void
start_and_end(void)
{
	uint64_t range =
	    ((uint64_t(*)(const char *))functions[CORE][5])("long");
	pthread_t thread;

	printf("range %d\n", range != 0);
	pthread_create(&thread, NULL, end_elsewhere, &range);
	pthread_join(thread, NULL);
	/* The tool has ended, so nothing more happens. */
	((void (*)(uint64_t))functions[CORE][7])(range);
	((void (*)(uint64_t))functions[CORE][7])(12345);
}

static void
go_deep(void)
{
	int levels = 0;

	while (levels < 100)
		levels = push("deep") + 1;
	while (levels > 0)
		levels = pop();
	printf("deep %d\n", levels);
}

/* A child has no history, and takes no lock that a thread of its parent may
 * have held. */
static void
range_in_a_child(void)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		uint64_t range =
		    ((uint64_t(*)(const char *))functions[CORE][5])("child");

		((void (*)(uint64_t))functions[CORE][7])(1);
		printf("child %d\n", range != 0);
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

int
main(void)
{
	struct cuda cuda;
	address block;

	load_tool();
	cuda_by_dlsym(&cuda);
	cuda_start(&cuda);
	cuda.mem_alloc(&block, 1 << 20);
	printf("push %d\n", push("outer"));
	printf("push %d\n", push("inner"));
	printf("pop %d\n", pop());
	push_with_attributes();
	printf("pop %d\n", pop());
	printf("pop %d\n", pop());
	start_and_end();
	go_deep();
	range_in_a_child();
	cuda.mem_free(block);
	return 0;
}
