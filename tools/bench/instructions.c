/*
 * One path of weir many times over, for a tool that counts instructions.
 *
 *	weir-bench-instructions PATH N
 *	weir-bench-instructions --machine	what to compare numbers by
 *
 * The counting is of what bench_measured() does, and by callgrind; see
 * scripts/bench-instructions. Exit status 3: this weir has no such path.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include <weir/host.h>
#include <weir/stream.h>
#include <weir/trace.h>

enum {
	SIZE = 64 << 10,
	LARGE = 2 << 20,
	TINY = 1000,
	WARM_UP = 1000,
	NO_SUCH_PATH = 3
};

static weir_stream stream;
static weir_stream user;

static void
pairs(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		weir_free(weir_malloc(SIZE, stream));
}

static void
large_pairs(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		weir_free(weir_malloc(LARGE, stream));
}

static void
records(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++) {
		void *block = weir_malloc(SIZE, stream);

		weir_record_stream(block, user);
		weir_free(block);
	}
}

/* Which history is on. */
enum history { OFF, PLAIN, STACKS };

static void
pinned_pairs(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		weir_host_free(weir_host_malloc(SIZE));
}

static void
pinned_tiny_pairs(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		weir_host_free(weir_host_malloc(TINY));
}

struct path {
	const char *name;
	const char *conf; /* or NULL */
	void (*run)(unsigned long n);
	enum history history;
};

static const struct path paths[] = {
	{ "cached-pair", NULL, pairs, OFF },
	{ "large-pair", NULL, large_pairs, OFF },
	{ "pool-pair", "tcache:0", pairs, OFF },
	{ "record-cycle", NULL, records, OFF },
	{ "pinned-pair", NULL, pinned_pairs, OFF },
	{ "pinned-tiny-pair", NULL, pinned_tiny_pairs, OFF },
	/* Three events each. */
	{ "traced-pair", NULL, pairs, PLAIN },
	{ "stacked-pair", NULL, pairs, STACKS },
};

void bench_measured(void (*run)(unsigned long n), unsigned long n);

/* Counting begins and ends with this call. */
__attribute__((noinline)) void
bench_measured(void (*run)(unsigned long n), unsigned long n)
{
	run(n);
	/* So that run() is called and not jumped to: its end is no end. */
	__asm__ volatile("");
}

/* Called through this, it is there by its name and has no specialised twin. */
static void (*volatile measured)(
    void (*run)(unsigned long n), unsigned long n) = bench_measured;

static const struct path *
path_find(const char *name)
{
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (strcmp(paths[i].name, name) == 0)
			return &paths[i];
	return NULL;
}

/* Instructions can be compared only where these are the same. */
static void
print_machine(void)
{
	struct utsname machine;

	if (uname(&machine) != 0)
		snprintf(machine.machine, sizeof(machine.machine), "unknown");
#if defined(__clang__)
	printf("%s clang-%d\n", machine.machine, __clang_major__);
#else
	printf("%s gcc-%d\n", machine.machine, __GNUC__);
#endif
}

static int
fail(const char *what)
{
	fprintf(stderr, "weir-bench-instructions: %s: %s\n", what,
	    weir_last_error());
	return 1;
}

static enum weir_status
start_history(enum history history)
{
	const struct weir_history plain = { .struct_size = sizeof(plain) };

	if (history == OFF)
		return WEIR_OK;
	return weir_history_start(history == PLAIN ? &plain : NULL);
}

int
main(int argc, char **argv)
{
	const struct path *path = argc == 3 ? path_find(argv[1]) : NULL;
	unsigned long n = path != NULL ? strtoul(argv[2], NULL, 10) : 0;
	struct weir_stats stats = { .struct_size = sizeof(stats) };

	if (argc == 2 && strcmp(argv[1], "--machine") == 0) {
		print_machine();
		return 0;
	}
	if (n == 0) {
		fputs("Usage: weir-bench-instructions PATH N, or --machine\n",
		    stderr);
		return 2;
	}
	if (path->conf != NULL && weir_options_set(path->conf) != WEIR_OK)
		return NO_SUCH_PATH;
	if (weir_set_device(0) != WEIR_OK ||
	    weir_stream_create(0, 0, &stream) != WEIR_OK ||
	    weir_stream_create(0, 0, &user) != WEIR_OK ||
	    start_history(path->history) != WEIR_OK)
		return fail("cannot begin");
	path->run(WARM_UP);
	if (weir_stats_reset_accumulated(0) != WEIR_OK ||
	    weir_host_stats_reset_accumulated(0) != WEIR_OK)
		return fail("cannot begin");
	measured(path->run, n);
	/* No call was checked; this is whether all of them did their work. */
	bool pinned =
	    path->run == pinned_pairs || path->run == pinned_tiny_pairs;
	if ((pinned ? weir_host_stats(0, &stats) : weir_stats(0, &stats)) !=
		WEIR_OK ||
	    stats.allocation.all.allocated != n ||
	    stats.allocation.all.freed != n)
		return fail("not every call succeeded");
	return 0;
}
