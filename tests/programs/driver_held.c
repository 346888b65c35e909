/*
 * A program that puts its device to sleep and calls what works on memory.
 *
 *	driver_held each	each call that is held, whose launches fail
 *	driver_held wait	a fill by another thread, which waits
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weir/sleep.h>

#include "common/cuda.h"
#include "driver/entries.h"
#include "driver/takes.h"

enum { BYTES = 1 << 20, LOOK_MS = 200 };

static struct cuda cuda;
static void *library; /* the driver */
static enum weir_status (*put_to_sleep)(
    int, const struct weir_sleep_options *, struct weir_sleep_result *);
static enum weir_status (*wake)(int, uint64_t, struct weir_wake_result *);

enum asleep { RUNS, WAITS, HELD };

static const struct row {
	const char *symbol;
	enum asleep asleep;
} rows[] = {
#define ROW(symbol, kind, asleep) { #symbol, asleep },
	DRIVER_TAKES(ROW)
#undef ROW
};

/* Call one form of a call, with no arguments, and print the code. All arguments
 * are zero: a call that is not held fails in the driver. */
static void
call_form(const char *symbol, const char *form)
{
	char name[128];
	result (*call)(address, address, address, address, address, address,
	    address, address, address, address, address);

	snprintf(name, sizeof(name), "%s%s", symbol, form);
	*(void **)&call = dlsym(library, name);
	if (call != NULL)
		printf("%s: %d\n", name, call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
	else if (*form == '\0')
		printf("%s: missing\n", name);
}

static void
call_each(void)
{
	const struct weir_sleep_options fail = { .struct_size = sizeof(fail),
		.flags = WEIR_SLEEP_FAIL };

	MUST(put_to_sleep(0, &fail, NULL));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].asleep != HELD)
			continue;
		call_form(rows[i].symbol, "");
		call_form(rows[i].symbol, "_ptsz");
		call_form(rows[i].symbol, "_ptds");
	}
	MUST(wake(0, 0, NULL));
}

/* ---- Waiting ------------------------------------------------------------- */

static context primary;
static address block;
static atomic_int filled;

static void *
fill_rows(void *unused)
{
	result (*fill)(address, size_t, unsigned char, size_t, size_t);

	cuda_fetch("cuMemsetD2D8_v2", &fill);
	MUST(cuda.set_current(primary));
	MUST(fill(block, 1024, 7, 512, BYTES / 1024));
	atomic_store(&filled, 1);
	return unused;
}

static void
let_wait(void)
{
	unsigned char bytes[1024];
	pthread_t thread;

	MUST(put_to_sleep(0, NULL, NULL));
	MUST(pthread_create(&thread, NULL, fill_rows, NULL));
	usleep(LOOK_MS * 1000);
	printf("asleep: %s\n", atomic_load(&filled) ? "filled" : "waits");
	MUST(wake(0, 0, NULL));
	pthread_join(thread, NULL);
	MUST(cuda.copy_out(bytes, block, sizeof(bytes)));
	printf("awake: %d %d\n", bytes[511], bytes[512]);
}

int
main(int argc, char **argv)
{
	cuda_by_dlsym(&cuda);
	primary = cuda_start(&cuda);
	library = dlopen("libcuda.so.1", RTLD_NOW);
	MUST(cuda.mem_alloc(&block, BYTES));
	MUST(cuda.fill(block, 0, BYTES / 4, NULL));
	*(void **)&put_to_sleep = dlsym(RTLD_DEFAULT, "weir_sleep");
	*(void **)&wake = dlsym(RTLD_DEFAULT, "weir_wake");
	if (put_to_sleep == NULL || wake == NULL || library == NULL)
		return 2;
	if (argc > 1 && strcmp(argv[1], "each") == 0)
		call_each();
	else
		let_wait();
	MUST(cuda.mem_free(block));
	return 0;
}
