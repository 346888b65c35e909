/*
 * Loading the driver: nothing before the first call, a status and a text for
 * each way to fail, and the ways to find an entry point. Broken drivers are
 * fake/cuda.so; the last tests use the driver of the run, simcuda or a real
 * one.
 */
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "driver/driver.h"
#include "tests/driver/fake/cuda.h"
#include "tests/support/test.h"

static const char *const required_entries[] = {
#define REQUIRED(name, version, required, params) required ? #name : NULL,
	DRIVER_ENTRIES(REQUIRED)
#undef REQUIRED
};

enum { ENTRIES = sizeof(required_entries) / sizeof(required_entries[0]) };

/* driver_get() fails with this error, twice, and returns no table. */
static void
expect_failure(enum weir_status status, const char *text)
{
	const struct driver *untouched = (const struct driver *)&status;
	const struct driver *driver = untouched;
	char first[STATUS_TEXT_SIZE];

	EXPECT_EQ(driver_get(&driver), status);
	EXPECT_EQ(weir_last_status(), status);
	EXPECT_STR_HAS(weir_last_error(), text);
	snprintf(first, sizeof(first), "%s", weir_last_error());

	status_set(WEIR_EINVAL, "something else");
	EXPECT_EQ(driver_get(&driver), status);
	EXPECT_STR_EQ(weir_last_error(), first);
	EXPECT_EQ(driver, untouched);
	EXPECT_NULL(driver_peek());
}

TEST(nothing_is_called_before_the_first_use)
{
	struct fake_cuda *fake = fake_cuda_use();

	EXPECT_NULL(driver_peek());
	EXPECT_EQ(weir_last_status(), WEIR_OK);
	EXPECT_STR_EQ(weir_status_text(weir_check_driver(2)), "out of memory");
	EXPECT_EQ(fake->inits, 0);
	EXPECT_NULL(driver_peek());
}

TEST(a_driver_is_loaded_once)
{
	struct fake_cuda *fake = fake_cuda_use();
	const struct driver *driver = NULL;
	const struct driver *again = NULL;

	EXPECT_EQ(driver_get(&driver), WEIR_OK);
	EXPECT_EQ(driver_get(&again), WEIR_OK);
	EXPECT_EQ(driver, again);
	EXPECT_EQ(driver_peek(), driver);
	EXPECT_EQ(fake->inits, 1);
	EXPECT_EQ(driver->version, 13000);
	EXPECT_EQ(driver->device_count, 2);
	EXPECT(!driver->simulated);
	EXPECT_NOT_NULL(driver->library);
	EXPECT_EQ((void *)driver->cuMemMap, fake_cuda_entry("cuMemMap"));
	EXPECT_EQ((void *)driver->cuInit, fake_cuda_entry("cuInit"));
	EXPECT_EQ(weir_last_status(), WEIR_OK);
}

static pthread_barrier_t gate;

static void *
get_at_once(void *out)
{
	pthread_barrier_wait(&gate);
	EXPECT_EQ(driver_get(out), WEIR_OK);
	return NULL;
}

TEST(threads_that_come_together_get_one_table)
{
	enum { THREADS = 8 };
	struct fake_cuda *fake = fake_cuda_use();
	pthread_t threads[THREADS];
	const struct driver *driver[THREADS] = { NULL };

	pthread_barrier_init(&gate, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, get_at_once, &driver[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(driver[i], driver_peek());
	EXPECT_EQ(fake->inits, 1);
}

TEST(a_missing_library_is_named)
{
	setenv("WEIR_LIBCUDA", "/nowhere/libcuda.so.1", 1);
	expect_failure(WEIR_ENODRIVER, "/nowhere/libcuda.so.1");
	EXPECT_STR_HAS(weir_last_error(), "WEIR_LIBCUDA");
	EXPECT_STR_HAS(weir_last_error(), "No such file");
}

TEST(a_failure_stays_even_if_its_cause_is_gone)
{
	setenv("WEIR_LIBCUDA", "/nowhere/libcuda.so.1", 1);
	expect_failure(WEIR_ENODRIVER, "/nowhere/libcuda.so.1");
	fake_cuda_use();
	expect_failure(WEIR_ENODRIVER, "/nowhere/libcuda.so.1");
}

TEST(a_failure_found_while_muted_keeps_its_text)
{
	const struct driver *driver;

	setenv("WEIR_LIBCUDA", "/nowhere/libcuda.so.1", 1);
	status_set(WEIR_EINVAL, "an older failure");
	status_mute();
	EXPECT_EQ(driver_get(&driver), WEIR_ENODRIVER);
	status_unmute();
	EXPECT_STR_EQ(weir_last_error(), "an older failure");
	expect_failure(WEIR_ENODRIVER, "/nowhere/libcuda.so.1");
}

TEST(a_file_that_is_no_library_is_refused)
{
	char path[] = "/tmp/weir-loader-test-XXXXXX";
	int file = mkstemp(path);

	EXPECT_GE(file, 0);
	EXPECT_EQ(write(file, "not a library\n", 14), 14);
	close(file);
	setenv("WEIR_LIBCUDA", path, 1);
	expect_failure(WEIR_ENODRIVER, path);
	unlink(path);
}

TEST(a_library_that_is_no_driver_is_refused)
{
	setenv("WEIR_LIBCUDA", "libm.so.6", 1);
	expect_failure(WEIR_ENOENTRY, "libm.so.6: no entry cuDriverGetVersion");
}

TEST(an_old_driver_is_refused_before_it_is_initialised)
{
	struct fake_cuda *fake = fake_cuda_use();

	fake->version = 11030;
	/* The driver lacks entry points too, but its age is the fact that the
	 * user needs. */
	fake->missing = "cuDeviceGetUuid";
	expect_failure(WEIR_EOLDDRIVER, "has CUDA 11.3; 11.4 or newer");
	EXPECT_EQ(fake->inits, 0);
}

TEST(the_oldest_driver_that_is_supported_is_taken)
{
	struct fake_cuda *fake = fake_cuda_use();
	const struct driver *driver;

	fake->version = DRIVER_VERSION_MIN;
	EXPECT_EQ(driver_get(&driver), WEIR_OK);
	EXPECT_EQ(driver->version, DRIVER_VERSION_MIN);
}

TEST(a_stub_library_is_no_driver)
{
	struct fake_cuda *fake = fake_cuda_use();

	fake->failing = "cuDriverGetVersion";
	fake->code = CUDA_ERROR_STUB_LIBRARY;
	expect_failure(WEIR_ENODRIVER, "cuDriverGetVersion(): ");
	EXPECT_STR_HAS(weir_last_error(), "(34)");
}

static const char *missing_entry;

static int
fails_without_entry(void)
{
	struct fake_cuda *fake = fake_cuda_use();
	char text[128];

	fake->missing = missing_entry;
	snprintf(text, sizeof(text), "no entry %s", missing_entry);
	expect_failure(WEIR_ENOENTRY, text);
	EXPECT_EQ(fake->inits, 0);
	return 0;
}

TEST(each_required_entry_is_named_when_it_is_missing)
{
	for (int i = 0; i < ENTRIES; i++) {
		missing_entry = required_entries[i];
		if (missing_entry != NULL)
			EXPECT_EQ(test_child_status(fails_without_entry), 0);
	}
}

TEST(an_optional_entry_may_be_missing)
{
	struct fake_cuda *fake = fake_cuda_use();
	const struct driver *driver;

	fake->missing = "cuCtxRecordEvent";
	EXPECT_EQ(driver_get(&driver), WEIR_OK);
	EXPECT_EQ((void *)driver->cuCtxRecordEvent, NULL);
	EXPECT_NE((void *)driver->cuCtxGetId, NULL);
}

TEST(no_device_at_initialisation_is_reported)
{
	struct fake_cuda *fake = fake_cuda_use();

	fake->failing = "cuInit";
	fake->code = CUDA_ERROR_NO_DEVICE;
	expect_failure(WEIR_ENODEVICE, "cuInit(0): ");
	EXPECT_STR_HAS(weir_last_error(), "(100)");
	EXPECT_EQ(fake->inits, 1);
}

TEST(a_failed_initialisation_is_reported_with_the_driver_s_text)
{
	struct fake_cuda *fake = fake_cuda_use();

	fake->failing = "cuInit";
	expect_failure(WEIR_EDRIVER, "cuInit(0): a fake text (999)");
	EXPECT_EQ(fake->inits, 1);
}

TEST(a_driver_that_its_parent_has_used_is_a_fork)
{
	struct fake_cuda *fake = fake_cuda_use();

	fake->failing = "cuInit";
	fake->code = CUDA_ERROR_NOT_INITIALIZED;
	expect_failure(WEIR_EFORK, "cuInit(0): initialization error (3)");
}

TEST(a_driver_without_a_device_is_reported_with_the_visible_devices)
{
	struct fake_cuda *fake = fake_cuda_use();

	fake->devices = 0;
	setenv("CUDA_VISIBLE_DEVICES", "7", 1);
	expect_failure(WEIR_ENODEVICE, "CUDA_VISIBLE_DEVICES is 7");
}

TEST(a_failed_count_of_devices_is_reported)
{
	struct fake_cuda *fake = fake_cuda_use();

	fake->failing = "cuDeviceGetCount";
	expect_failure(WEIR_EDRIVER, "cuDeviceGetCount(): a fake text (999)");
}

TEST(a_shortage_of_host_memory_does_not_last)
{
	const struct driver *driver = NULL;

	fake_cuda_use();
	meta_fail(1, 1);
	EXPECT_EQ(driver_get(&driver), WEIR_EHOSTMEM);
	EXPECT_NULL(driver);
	EXPECT_NULL(driver_peek());
	EXPECT_EQ(driver_get(&driver), WEIR_OK);
	EXPECT_EQ(driver, driver_peek());
}

static enum weir_status status_within;

static void
get_within(void)
{
	const struct driver *driver;

	status_within = driver_get(&driver);
}

TEST(a_call_from_within_the_loading_fails_and_does_not_hang)
{
	struct fake_cuda *fake = fake_cuda_use();
	const struct driver *driver;

	fake->on_init = get_within;
	EXPECT_EQ(driver_get(&driver), WEIR_OK);
	EXPECT_EQ(status_within, WEIR_EDRIVER);
	EXPECT_EQ(fake->inits, 1);
}

/* ---- Forks ---- */

static int
get_is_a_fork(void)
{
	const struct driver *driver;
	struct driver_guard guard;
	CUcontext context;

	EXPECT_EQ(driver_get(&driver), WEIR_EFORK);
	EXPECT_STR_HAS(weir_last_error(), "forked child");
	EXPECT_EQ(driver_context(0, &context), WEIR_EFORK);
	EXPECT_EQ(driver_enter(NULL, &guard), WEIR_EFORK);
	EXPECT_EQ(driver_map(CUDA_ERROR_NOT_INITIALIZED), WEIR_EFORK);
	EXPECT_EQ(driver_map(CUDA_ERROR_DEINITIALIZED), WEIR_EFORK);
	return 0;
}

TEST(a_forked_child_gets_an_error_and_its_parent_goes_on)
{
	struct fake_cuda *fake = fake_cuda_use();
	const struct driver *driver;
	CUcontext context;

	EXPECT_EQ(driver_get(&driver), WEIR_OK);
	EXPECT_EQ(test_child_status(get_is_a_fork), 0);
	EXPECT_EQ(driver_get(&driver), WEIR_OK);
	EXPECT_EQ(driver_context(0, &context), WEIR_OK);
	EXPECT_EQ(fake->inits, 1);
}

TEST(a_fork_after_a_failure_is_reported_as_a_fork)
{
	setenv("WEIR_LIBCUDA", "/nowhere/libcuda.so.1", 1);
	expect_failure(WEIR_ENODRIVER, "/nowhere/libcuda.so.1");
	EXPECT_EQ(test_child_status(get_is_a_fork), 0);
}

static int
get_works(void)
{
	const struct driver *driver;

	return driver_get(&driver) == WEIR_OK ? 0 : 1;
}

TEST(a_child_forked_before_the_first_use_is_free_to_use_cuda)
{
	fake_cuda_use();
	EXPECT_EQ(test_child_status(get_works), 0);
	EXPECT_EQ(get_works(), 0);
}

/* ---- Ways to find an entry ---- */

static struct {
	char asked[256][64];
	int n;
	bool v1; /* returns cuGetProcAddress, by name */
	bool v2; /* returns cuGetProcAddress_v2 */
} finder;

static bool
was_asked(const char *symbol)
{
	for (int i = 0; i < finder.n; i++) {
		if (strcmp(finder.asked[i], symbol) == 0)
			return true;
	}
	return false;
}

static CUresult
address_v1(const char *name, void **address, int version, cuuint64_t flags)
{
	if (strcmp(name, "cuCtxGetId") == 0)
		return CUDA_ERROR_NOT_FOUND;
	EXPECT_GE(version, 2000);
	EXPECT_EQ(flags, 0);
	*address = fake_cuda_entry(name);
	return *address == NULL ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

static CUresult
address_v2(const char *name, void **address, int version, cuuint64_t flags,
    CUdriverProcAddressQueryResult *found)
{
	EXPECT_NOT_NULL(found);
	/* A real driver may also return success without an address. */
	if (strcmp(name, "cuCtxGetId") == 0) {
		*address = NULL;
		*found = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
		return CUDA_SUCCESS;
	}
	return address_v1(name, address, version, flags);
}

/* By symbol, a name that is requested with _v2 is found without it. */
static void *
find(const char *symbol)
{
	driver_resolver_11030 v1 = address_v1;
	driver_resolver_12000 v2 = address_v2;
	char name[64];
	void *address;
	size_t length = strlen(symbol);

	snprintf(finder.asked[finder.n++], sizeof(name), "%s", symbol);
	if (strcmp(symbol, "cuGetProcAddress_v2") == 0) {
		memcpy(&address, &v2, sizeof(address));
		return finder.v2 ? address : NULL;
	}
	if (strcmp(symbol, "cuGetProcAddress") == 0) {
		memcpy(&address, &v1, sizeof(address));
		return finder.v1 ? address : NULL;
	}
	if (strcmp(symbol, "cuCtxGetId") == 0)
		return NULL;
	if (length > 3 && strcmp(symbol + length - 3, "_v2") == 0)
		length -= 3;
	snprintf(name, sizeof(name), "%.*s", (int)length, symbol);
	return fake_cuda_entry(name);
}

/* Load through the finder, with no library to fall back on. */
static const struct driver *
load_by_finder(void)
{
	const struct driver *driver = NULL;

	setenv("WEIR_LIBCUDA", "/nowhere/libcuda.so.1", 1);
	driver_set_finder(find);
	EXPECT_EQ(driver_get(&driver), WEIR_OK);
	EXPECT_NULL(driver->library);
	EXPECT(!driver->simulated);
	EXPECT_EQ(driver->device_count, 2);
	EXPECT_EQ((void *)driver->cuCtxGetId, NULL);
	EXPECT_EQ((void *)driver->cuMemAlloc, fake_cuda_entry("cuMemAlloc"));
	return driver;
}

TEST(a_finder_is_asked_for_the_newest_resolver_first)
{
	finder.v2 = true;
	load_by_finder();
	EXPECT_STR_EQ(finder.asked[0], "cuGetProcAddress_v2");
	EXPECT(!was_asked("cuGetProcAddress"));
	EXPECT(!was_asked("cuMemAlloc"));
	EXPECT(!was_asked("cuMemAlloc_v2"));
	EXPECT(was_asked("cuCtxGetId"));
}

TEST(a_finder_without_it_is_asked_for_the_older_resolver)
{
	finder.v1 = true;
	load_by_finder();
	EXPECT_STR_EQ(finder.asked[1], "cuGetProcAddress");
	EXPECT(!was_asked("cuMemAlloc_v2"));
}

TEST(a_finder_without_a_resolver_is_asked_by_exported_symbol)
{
	load_by_finder();
	EXPECT(was_asked("cuMemAlloc_v2"));
	EXPECT(!was_asked("cuMemAlloc"));
	EXPECT(was_asked("cuMemCreate"));
	EXPECT(was_asked("cuEventDestroy_v2"));
}

TEST(a_preload_is_named_in_failures)
{
	struct fake_cuda *fake = fake_cuda_use();

	finder.v2 = true;
	fake->missing = "cuMemMap";
	driver_set_finder(find);
	expect_failure(WEIR_ENOENTRY, "no entry cuMemMap");
	EXPECT_STR_HAS(weir_last_error(), "preload");
}

/* ---- The driver of this run ---- */

static void *run_library;

static const char *
run_library_name(void)
{
	const char *path = getenv("WEIR_LIBCUDA");

	return path != NULL && *path != '\0' ? path : "libcuda.so.1";
}

static void *
find_by_symbol_only(const char *symbol)
{
	if (strncmp(symbol, "cuGetProcAddress", 16) == 0)
		return NULL;
	return dlsym(run_library, symbol);
}

/* Write the table, loaded by symbol, to `out`. */
static void
load_by_symbol(int out)
{
	const struct driver *driver;

	driver_set_finder(find_by_symbol_only);
	if (driver_get(&driver) != WEIR_OK) {
		fprintf(stderr, "# %s\n", weir_last_error());
		_exit(1);
	}
	if (write(out, driver, sizeof(*driver)) != sizeof(*driver))
		_exit(2);
	_exit(0);
}

/* This shows that the table of symbols has the right suffixes. */
TEST(every_entry_is_the_same_by_resolver_and_by_symbol)
{
	const struct driver *driver;
	struct driver by_symbol;
	int ends[2];
	int status;
	pid_t child;

	run_library = dlopen(run_library_name(), RTLD_NOW | RTLD_LOCAL);
	if (run_library == NULL)
		FAIL("%s", dlerror());
	EXPECT_EQ(pipe(ends), 0);
	child = fork();
	if (child == 0)
		load_by_symbol(ends[1]);
	EXPECT_EQ(
	    read(ends[0], &by_symbol, sizeof(by_symbol)), sizeof(by_symbol));
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);

	EXPECT_EQ(driver_get(&driver), WEIR_OK);
#define EXPECT_SAME(name, version, required, params)                           \
	EXPECT_EQ((void *)driver->name, (void *)by_symbol.name);
	DRIVER_ENTRIES(EXPECT_SAME)
#undef EXPECT_SAME
	EXPECT_EQ(driver->version, by_symbol.version);
	EXPECT_EQ(driver->device_count, by_symbol.device_count);
	EXPECT_EQ(driver->simulated, by_symbol.simulated);
}

TEST(a_simulated_driver_is_recognised)
{
	const struct driver *driver;
	void *library = dlopen(run_library_name(), RTLD_NOW | RTLD_LOCAL);

	EXPECT_NOT_NULL(library);
	EXPECT_EQ(driver_get(&driver), WEIR_OK);
	EXPECT_EQ(driver->simulated, dlsym(library, "simcuda_version") != NULL);
	EXPECT_EQ(driver->library, library);
	EXPECT_GE(driver->version, DRIVER_VERSION_MIN);
	EXPECT_GT(driver->device_count, 0);
}

static int
get_after_a_foreign_fork(void)
{
	const struct driver *driver;

	EXPECT(!os_forked());
	EXPECT_EQ(driver_get(&driver), WEIR_EFORK);
	EXPECT_STR_HAS(weir_last_error(), "cuInit(0): ");
	return 0;
}

/* The parent has used CUDA without weir, so only the driver can report the
 * fork. */
TEST(a_child_of_a_process_that_used_cuda_gets_an_error_that_names_the_fork)
{
	CUresult (*init)(unsigned flags);
	void *symbol;

	run_library = dlopen(run_library_name(), RTLD_NOW | RTLD_LOCAL);
	if (run_library == NULL)
		FAIL("%s", dlerror());
	symbol = dlsym(run_library, "cuInit");
	memcpy(&init, &symbol, sizeof(init));
	EXPECT_EQ(init(0), CUDA_SUCCESS);
	EXPECT_EQ(test_child_status(get_after_a_foreign_fork), 0);
}

static void *
open_weir(void)
{
	char path[4096];
	void *weir =
	    dlopen(fake_path("../../lib/libweir.so", path, sizeof(path)),
		RTLD_NOW | RTLD_LOCAL);

	if (weir == NULL)
		FAIL("%s", dlerror());
	return weir;
}

TEST(opening_libweir_does_not_load_the_driver)
{
	void *weir = open_weir();
	enum weir_status (*init)(void);
	void *symbol;

	EXPECT_NULL(dlopen(run_library_name(), RTLD_NOW | RTLD_NOLOAD));
	symbol = dlsym(weir, "weir_init");
	EXPECT_NOT_NULL(symbol);
	memcpy(&init, &symbol, sizeof(init));
	EXPECT_EQ(init(), WEIR_OK);
	EXPECT_NOT_NULL(dlopen(run_library_name(), RTLD_NOW | RTLD_NOLOAD));
}

/* Late in its life a program has no static TLS left for a library that it
 * opens. */
TEST(libweir_needs_no_static_thread_local_storage)
{
	struct link_map *map = NULL;

	EXPECT_EQ(dlinfo(open_weir(), RTLD_DI_LINKMAP, &map), 0);
	for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL;
	     entry++) {
		if (entry->d_tag == DT_FLAGS)
			EXPECT_EQ(entry->d_un.d_val & DF_STATIC_TLS, 0);
	}
}
