/*
 * Preloaded before weir: makes calls of the simulated driver fail under a
 * program that does not know it, and checks the state at the program's end.
 *
 * FAULTS="ENTRY:NTH:COUNT:CODE ..." requests faults as simcuda_fail() makes
 * them. At the program's end the file FAULTS_OUT gets lines of "NAME NUMBER":
 *
 *	met		calls that were failed
 *	ENTRY		calls of an entry point of failing.h, if any
 *	violations	of the simulated device
 *	faults		of weir_check(), whose text goes to stderr
 *	live		blocks of weir that the program has not freed
 *	left:KIND	objects of the driver that remain after weir has given
 *			back its unused memory
 *
 * A process that ends without its exit handlers writes nothing, nor does a
 * forked child.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/host.h>
#include <weir/weir.h>

#include "simcuda/simcuda.h"
#include "tests/preload/fake/failing.h"

static struct simcuda_api sim;
static pid_t process;

static void
find_controls(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	void *symbol;

#define CONTROL(result, name, params)                                          \
	symbol = library == NULL ? NULL : dlsym(library, "simcuda_" #name);    \
	if (symbol == NULL)                                                    \
		return;                                                        \
	memcpy(&sim.name, &symbol, sizeof(symbol));
	SIMCUDA_CONTROLS(CONTROL)
#undef CONTROL
	process = getpid();
}

static void
ask_for(const char *fault)
{
	char entry[64];
	unsigned nth;
	unsigned count;
	int code;

	if (sscanf(fault, "%63[^:]:%u:%u:%d", entry, &nth, &count, &code) !=
		4 ||
	    sim.fail(entry, nth, count, (CUresult)code) != 0) {
		fprintf(stderr, "faults: no fault: %s\n", fault);
		_exit(99);
	}
}

__attribute__((constructor)) static void
begin(void)
{
	const char *wanted = getenv("FAULTS");
	char *list = strdup(wanted != NULL ? wanted : "");
	char *rest = NULL;

	if (getenv("FAULTS_OUT") != NULL)
		find_controls();
	if (process != 0 && list != NULL)
		for (char *fault = strtok_r(list, " ", &rest); fault != NULL;
		     fault = strtok_r(NULL, " ", &rest))
			ask_for(fault);
	free(list);
}

/* weir's own calls, if it is preloaded too. */
static void *
weir(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

static int
check(void)
{
	int (*call)(char *, size_t);
	void *symbol = weir("weir_check");
	char text[1024] = "";

	memcpy(&call, &symbol, sizeof(symbol));
	if (call == NULL)
		return 0;
	int n = call(text, sizeof(text));
	if (n != 0)
		fprintf(stderr, "%s\n", text);
	return n;
}

static void
trim(const char *name)
{
	enum weir_status (*call)(int, size_t, size_t *);
	void *symbol = weir(name);

	memcpy(&call, &symbol, sizeof(symbol));
	if (call != NULL)
		call(WEIR_DEVICE_ALL, 0, NULL);
}

/* Trim the driver's own default pool, which keeps memory of allocations that
 * weir has left to the driver. */
static void
trim_default_pool(void)
{
	CUresult (*get)(CUmemoryPool *, CUdevice);
	CUresult (*trim_to)(CUmemoryPool, size_t);
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	void *symbol = dlsym(library, "cuDeviceGetDefaultMemPool");
	CUmemoryPool pool;

	memcpy(&get, &symbol, sizeof(symbol));
	symbol = dlsym(library, "cuMemPoolTrimTo");
	memcpy(&trim_to, &symbol, sizeof(symbol));
	if (get(&pool, 0) == CUDA_SUCCESS)
		trim_to(pool, 0);
}

/* Live bytes of all kinds on the first device. */
static unsigned long long
live(void)
{
	enum weir_status (*call)(int, struct weir_stats *);
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	unsigned long long blocks = 0;

	for (int i = 0; i < 2; i++) {
		void *symbol = weir(i == 0 ? "weir_stats" : "weir_host_stats");

		memcpy(&call, &symbol, sizeof(symbol));
		if (call != NULL && call(0, &stats) == WEIR_OK)
			blocks += stats.allocation.all.current;
	}
	return blocks;
}

static void
write_calls(FILE *file)
{
	fprintf(file, "met %llu\n", (unsigned long long)sim.faults());
	for (size_t i = 0; i < FAILING; i++)
		if (!failing_skips(i) && sim.calls(failing[i]) > 0)
			fprintf(file, "%s %llu\n", failing[i],
			    (unsigned long long)sim.calls(failing[i]));
}

/* While the driver is still there, which its own exit handler ends. */
static void
end(void)
{
	static const char *const kinds[] = { "handle", "mapping", "allocation",
		"host" };
	FILE *file;

	if (process == 0 || getpid() != process)
		return;
	process = 0;
	file = fopen(getenv("FAULTS_OUT"), "a");
	if (file == NULL)
		_exit(99);
	write_calls(file);
	fprintf(file, "violations %u\n", sim.violations());
	sim.reset();
	fprintf(file, "faults %d\n", check());
	fprintf(file, "live %llu\n", live());
	sim.finish();
	trim("weir_trim");
	trim("weir_host_trim");
	trim_default_pool();
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		fprintf(file, "left:%s %ld\n", kinds[i], sim.live(kinds[i]));
	fclose(file);
}

/* ---- The end of a program, by exit() or by main() ------------------------ */

__attribute__((visibility("default"), noreturn)) void
exit(int status)
{
	void (*real)(int);
	void *symbol = dlsym(RTLD_NEXT, "exit");

	memcpy(&real, &symbol, sizeof(symbol));
	end();
	real(status);
	_exit(99);
}

typedef int main_function(int, char **, char **);

static main_function *program_main;

static int
main_and_end(int argc, char **argv, char **environment)
{
	int status = program_main(argc, argv, environment);

	end();
	return status;
}

/* The functions that start and end the program's libraries, and its stack, are
 * passed on unchanged. */
__attribute__((visibility("default"))) int __libc_start_main(
    main_function *main, int argc, char **argv, void *init, ...);

int
__libc_start_main(main_function *main, int argc, char **argv, void *init, ...)
{
	int (*real)(main_function *, int, char **, ...);
	void *symbol = dlsym(RTLD_NEXT, "__libc_start_main");
	void *more[3];
	va_list args;

	va_start(args, init);
	for (int i = 0; i < 3; i++)
		more[i] = va_arg(args, void *);
	va_end(args);
	memcpy(&real, &symbol, sizeof(symbol));
	program_main = main;
	return real(main_and_end, argc, argv, init, more[0], more[1], more[2]);
}
