/*
 * A program that asks NVML, before the driver is initialised and after, how
 * much memory its device has and it uses, by all forms of the calls.
 *
 *	driver_nvml [TAKE]	TAKE: MiB of cuMemAlloc() and as many of
 *				managed memory, between the questions
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cuda.h"

struct memory {
	unsigned long long total, free, used;
};

struct memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

struct row_v1 {
	unsigned pid;
	unsigned long long used;
};

struct row {
	unsigned pid;
	unsigned long long used;
	unsigned instances[2];
};

struct detail {
	unsigned pid;
	unsigned long long used;
	unsigned instances[2];
	unsigned long long protected_bytes;
};

struct details {
	unsigned version, mode, count;
	struct detail *rows;
};

static struct {
	int (*init)(void);
	int (*device)(unsigned, void **);
	int (*memory)(void *, struct memory *);
	int (*memory_v2)(void *, struct memory_v2 *);
	int (*processes_v1)(void *, unsigned *, struct row_v1 *);
	int (*processes_v2)(void *, unsigned *, struct row *);
	int (*processes_v3)(void *, unsigned *, struct row *);
	int (*details)(void *, struct details *);
} nvml;

static void
find(void *library, const char *name, void *place)
{
	void *found = dlsym(library, name);

	if (found == NULL)
		exit(4);
	*(void **)place = found;
}

static void
load(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (library == NULL)
		exit(77);
	find(library, "nvmlInit_v2", &nvml.init);
	find(library, "nvmlDeviceGetHandleByIndex_v2", &nvml.device);
	find(library, "nvmlDeviceGetMemoryInfo", &nvml.memory);
	find(library, "nvmlDeviceGetMemoryInfo_v2", &nvml.memory_v2);
	find(library, "nvmlDeviceGetComputeRunningProcesses",
	    &nvml.processes_v1);
	find(library, "nvmlDeviceGetComputeRunningProcesses_v2",
	    &nvml.processes_v2);
	find(library, "nvmlDeviceGetComputeRunningProcesses_v3",
	    &nvml.processes_v3);
	find(library, "nvmlDeviceGetRunningProcessDetailList", &nvml.details);
}

static void *device;

static void
tell_memory(void)
{
	struct memory m;
	struct memory_v2 v2 = { .version = sizeof(v2) | 2u << 24 };

	MUST(nvml.memory(device, &m));
	printf("memory: %llu of %llu MiB free, %llu used\n", m.free >> 20,
	    m.total >> 20, m.used >> 20);
	MUST(nvml.memory_v2(device, &v2));
	printf("version 2: %llu of %llu MiB free, %llu used\n", v2.free >> 20,
	    v2.total >> 20, v2.used >> 20);
}

/* Print what a list says of this process. */
#define TELL_LIST(name, rows, n)                                               \
	for (unsigned i = 0; i < (n); i++)                                     \
		if ((rows)[i].pid == (unsigned)getpid())                       \
	printf("%s: %llu MiB\n", name, (rows)[i].used >> 20)

static void
tell_processes(void)
{
	enum { ROOM = 8 };
	struct row_v1 old[ROOM];
	struct row rows[ROOM];
	struct detail detail[ROOM] = { { 0 } };
	struct details list = { .version = sizeof(list) | 1u << 24,
		.count = ROOM,
		.rows = detail };
	unsigned n = ROOM;

	MUST(nvml.processes_v1(device, &n, old));
	TELL_LIST("processes 1", old, n);
	n = ROOM;
	MUST(nvml.processes_v2(device, &n, rows));
	TELL_LIST("processes 2", rows, n);
	n = ROOM;
	MUST(nvml.processes_v3(device, &n, rows));
	TELL_LIST("processes 3", rows, n);
	MUST(nvml.details(device, &list));
	TELL_LIST("details", detail, list.count);
}

int
main(int argc, char **argv)
{
	size_t take = argc > 1 ? strtoul(argv[1], NULL, 10) << 20 : 0;
	result (*managed)(address *, size_t, unsigned);
	struct cuda cuda;
	size_t free_bytes;
	size_t total;
	address ptr;
	address other;

	load();
	MUST(nvml.init());
	MUST(nvml.device(0, &device));
	tell_memory();
	cuda_by_dlsym(&cuda);
	cuda_fetch("cuMemAllocManaged", &managed);
	cuda_start(&cuda);
	if (take > 0) {
		MUST(cuda.mem_alloc(&ptr, take));
		MUST(managed(&other, take, 1));
	}
	tell_memory();
	tell_processes();
	MUST(cuda.get_info(&free_bytes, &total));
	printf("driver: %zu of %zu MiB free\n", free_bytes >> 20, total >> 20);
	return 0;
}
