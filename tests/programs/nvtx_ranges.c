/*
 * A program that emits ranges by NVTX (common/nvtx.h). Prints the tool's
 * answers.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cuda.h"
#include "common/nvtx.h"

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

static void
push_with_attributes(void)
{
	struct attributes about = { .version = 3, .size = sizeof(about) };
	void *domain =
	    ((void *(*)(const char *))nvtx_functions[NVTX_DOMAINS][12])("mine");
	const char *name = ((const char *(*)(void *,
	    const char *))nvtx_functions[NVTX_DOMAINS][10])(
	    domain, "registered");

	about.message_type = 3;
	about.message = name;
	((int (*)(void *, struct attributes *))nvtx_functions[NVTX_DOMAINS][4])(
	    domain, &about);
	about.message_type = 1;
	about.message = "described";
	((void (*)(
	    void *, struct attributes *))nvtx_functions[NVTX_DOMAINS][1])(
	    domain, &about);
	((int (*)(void *))nvtx_functions[NVTX_DOMAINS][5])(domain);
}

/* Another thread cannot end a range of this one, and has no ranges. */
static void *
end_elsewhere(void *range)
{
	printf("elsewhere %d\n", nvtx_pop());
	((void (*)(uint64_t))nvtx_functions[NVTX_CORE][7])(*(uint64_t *)range);
	return NULL;
}

static void
start_and_end(void)
{
	uint64_t range =
	    ((uint64_t(*)(const char *))nvtx_functions[NVTX_CORE][5])("long");
	pthread_t thread;

	printf("range %d\n", range != 0);
	pthread_create(&thread, NULL, end_elsewhere, &range);
	pthread_join(thread, NULL);
	/* The tool has ended, so nothing more happens. */
	((void (*)(uint64_t))nvtx_functions[NVTX_CORE][7])(range);
	((void (*)(uint64_t))nvtx_functions[NVTX_CORE][7])(12345);
}

static void
go_deep(void)
{
	int levels = 0;

	while (levels < 100)
		levels = nvtx_push("deep") + 1;
	while (levels > 0)
		levels = nvtx_pop();
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
		    ((uint64_t(*)(const char *))nvtx_functions[NVTX_CORE][5])(
			"child");

		((void (*)(uint64_t))nvtx_functions[NVTX_CORE][7])(1);
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

	printf("tool %d\n", nvtx_load());
	if (nvtx_functions[NVTX_CORE][9] == NULL)
		return 0;
	cuda_by_dlsym(&cuda);
	cuda_start(&cuda);
	cuda.mem_alloc(&block, 1 << 20);
	printf("push %d\n", nvtx_push("outer"));
	printf("push %d\n", nvtx_push("inner"));
	printf("pop %d\n", nvtx_pop());
	push_with_attributes();
	printf("pop %d\n", nvtx_pop());
	printf("pop %d\n", nvtx_pop());
	start_and_end();
	go_deep();
	range_in_a_child();
	cuda.mem_free(block);
	return 0;
}
