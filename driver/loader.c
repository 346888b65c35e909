/*
 * Finding the driver.
 *
 * Entries are looked up in a source: the finder of a preload, or dlsym() on the
 * library. For each entry cuGetProcAddress is called first, with the version
 * whose signature driver/abi.h declares, because one name has had several
 * signatures. If the driver lacks cuGetProcAddress (before 11.3), or
 * cuGetProcAddress does not return an entry, the symbol with that signature is
 * looked up.
 *
 * Cheap checks come first: the library, its version and its entries are checked
 * before cuInit(), which takes a second on a large machine. The result is
 * stored, even a failure, because a process without a driver will not get one
 * later. Only a failure for lack of host memory may be retried.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "driver/private.h"

static const char default_library[] = "libcuda.so.1";

/* One entry point, and where it is stored in struct driver. */
struct entry {
	const char *name;
	int version; /* of the signature in driver/abi.h */
	bool required;
	size_t offset;
};

static const struct entry entries[] = {
#define DRIVER_ENTRY(name, version, required, params)                          \
	{ #name, version, required, offsetof(struct driver, name) },
	DRIVER_ENTRIES(DRIVER_ENTRY)
#undef DRIVER_ENTRY
};

/* The begin of driver_age_ns(). */
static uint64_t began_ns;

enum { ENTRIES = sizeof(entries) / sizeof(entries[0]) };

/*
 * The exported symbol of an entry if it is not its name: the one with the
 * signature in driver/abi.h. Symbols without a suffix are older.
 */
static const struct {
	const char *name;
	const char *symbol;
} symbols[] = {
	{ "cuCtxPopCurrent", "cuCtxPopCurrent_v2" },
	{ "cuCtxPushCurrent", "cuCtxPushCurrent_v2" },
	{ "cuDeviceGetUuid", "cuDeviceGetUuid_v2" },
	{ "cuDeviceTotalMem", "cuDeviceTotalMem_v2" },
	{ "cuEventDestroy", "cuEventDestroy_v2" },
	{ "cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2" },
	{ "cuMemAlloc", "cuMemAlloc_v2" },
	{ "cuMemFree", "cuMemFree_v2" },
	{ "cuMemGetAddressRange", "cuMemGetAddressRange_v2" },
	{ "cuMemGetInfo", "cuMemGetInfo_v2" },
	{ "cuMemHostRegister", "cuMemHostRegister_v2" },
	{ "cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2" },
	{ "cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2" },
	{ "cuStreamBeginCapture", "cuStreamBeginCapture_v2" },
	{ "cuStreamDestroy", "cuStreamDestroy_v2" },
	{ "cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2" },
};

static const char *
symbol_of(const char *name)
{
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		if (strcmp(symbols[i].name, name) == 0)
			return symbols[i].symbol;
	}
	return name;
}

/* Where entries are looked up. */
struct source {
	const char *name;            /* for messages */
	void *(*find)(const char *); /* NULL: dlsym() on `library` */
	void *library;
	/* cuGetProcAddress: the newer form, or the older one, or neither. */
	driver_resolver_12000 resolve;
	driver_resolver_11030 resolve_old;
};

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_INIT);
static struct driver table;      /* constant once published */
static enum weir_status failure; /* under the lock; WEIR_OK: no failure yet */
static char failure_text[STATUS_TEXT_SIZE]; /* under the lock */
const struct driver *_Atomic driver_published;
static void *(*_Atomic finder)(const char *symbol);

/* Set while this thread is in load_driver_once(). A constructor of the driver
 * or a hook may call weir again, and must not wait for itself. */
static _Thread_local bool loading;

void
driver_set_finder(void *(*find)(const char *symbol))
{
	atomic_store(&finder, find);
}

static void *
find_symbol(const struct source *source, const char *symbol)
{
	if (source->find != NULL)
		return source->find(symbol);
	return dlsym(source->library, symbol);
}

/* ISO C has no cast from void * to a function pointer; POSIX gives both the
 * same form. */
static void
copy_function(void *to, void *function)
{
	memcpy(to, &function, sizeof(function));
}

static enum weir_status
open_source(struct source *source)
{
	/* Ignored in setuid programs, because it names code to be run. */
	const char *path = secure_getenv("WEIR_LIBCUDA");
	bool named = path != NULL && *path != '\0';

	*source = (struct source){ .name = "the driver found by the preload" };
	source->find = atomic_load(&finder);
	if (source->find == NULL) {
		source->name = named ? path : default_library;
		source->library = dlopen(source->name, RTLD_NOW | RTLD_LOCAL);
		if (source->library == NULL)
			return status_set(WEIR_ENODRIVER,
			    "no CUDA driver%s: %s",
			    named ? " (WEIR_LIBCUDA names it)" : "", dlerror());
	}
	copy_function(
	    &source->resolve, find_symbol(source, "cuGetProcAddress_v2"));
	if (source->resolve == NULL)
		copy_function(&source->resolve_old,
		    find_symbol(source, "cuGetProcAddress"));
	return WEIR_OK;
}

/* The address of an entry, or NULL. */
static void *
find_entry(const struct source *source, const char *name, int version)
{
	/* A stream handle means what it says: NULL is the legacy default
	 * stream. */
	const cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT;
	CUdriverProcAddressQueryResult found;
	CUresult code = CUDA_ERROR_NOT_FOUND;
	void *address = NULL;

	if (source->resolve != NULL)
		code = source->resolve(name, &address, version, flags, &found);
	else if (source->resolve_old != NULL)
		code = source->resolve_old(name, &address, version, flags);
	if (code == CUDA_SUCCESS && address != NULL)
		return address;
	return find_symbol(source, symbol_of(name));
}

static enum weir_status
check_version(const struct source *source, struct driver *driver)
{
	CUresult (*get_version)(int *version);
	CUresult code;

	copy_function(
	    &get_version, find_entry(source, "cuDriverGetVersion", 2020));
	if (get_version == NULL)
		return status_set(WEIR_ENOENTRY,
		    "%s: no entry cuDriverGetVersion; is it a CUDA driver?",
		    source->name);
	code = get_version(&driver->version);
	if (code != CUDA_SUCCESS)
		return driver_status(code, "cuDriverGetVersion()");
	if (driver->version < DRIVER_VERSION_MIN)
		return status_set(WEIR_EOLDDRIVER,
		    "%s has CUDA %d.%d; %d.%d or newer is needed", source->name,
		    driver->version / 1000, driver->version % 1000 / 10,
		    DRIVER_VERSION_MIN / 1000, DRIVER_VERSION_MIN % 1000 / 10);
	return WEIR_OK;
}

static enum weir_status
find_driver_entries(const struct source *source, struct driver *driver)
{
	for (size_t i = 0; i < ENTRIES; i++) {
		const struct entry *entry = &entries[i];
		void *address = find_entry(source, entry->name, entry->version);

		if (address == NULL && entry->required)
			return status_set(WEIR_ENOENTRY,
			    "%s (CUDA %d.%d): no entry %s", source->name,
			    driver->version / 1000, driver->version % 1000 / 10,
			    entry->name);
		copy_function((char *)driver + entry->offset, address);
	}
	return WEIR_OK;
}

static enum weir_status
make_contexts(struct driver *driver)
{
	size_t count = (size_t)driver->device_count;

	driver->contexts = meta_zalloc(sizeof(*driver->contexts) * count);
	if (driver->contexts == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "no host memory for the contexts of %zu devices", count);
	return WEIR_OK;
}

static enum weir_status
start_driver(struct driver *driver)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	CUresult code = driver->cuInit(0);

	/* The driver returns this code in a child of a process that has used
	 * it. */
	if (code == CUDA_ERROR_NOT_INITIALIZED)
		return status_set(WEIR_EFORK,
		    "cuInit(0): %s (%d): the process has used CUDA before it "
		    "was forked",
		    driver_text(code), (int)code);
	if (code != CUDA_SUCCESS)
		return driver_status(code, "cuInit(0)");
	code = driver->cuDeviceGetCount(&driver->device_count);
	if (code != CUDA_SUCCESS)
		return driver_status(code, "cuDeviceGetCount()");
	if (driver->device_count <= 0)
		return status_set(WEIR_ENODEVICE,
		    "the CUDA driver has no device%s%s",
		    visible == NULL ? "" : "; CUDA_VISIBLE_DEVICES is ",
		    visible == NULL ? "" : visible);
	return make_contexts(driver);
}

/* POSIX allows a pointer from dlsym() to be a function; C has no cast for it.
 */
static void
find_clock(struct source *source, struct driver *driver)
{
	void *symbol = find_symbol(source, "simcuda_now_ns");

	memcpy(&driver->now_ns, &symbol, sizeof(symbol));
}

static enum weir_status
load_driver_once(struct driver *driver)
{
	struct source source;
	enum weir_status status = open_source(&source);

	if (status != WEIR_OK)
		return status;
	*driver = (struct driver){ .library = source.library };
	status = check_version(&source, driver);
	if (status != WEIR_OK)
		return status;
	status = find_driver_entries(&source, driver);
	if (status != WEIR_OK)
		return status;
	driver->simulated = find_symbol(&source, "simcuda_version") != NULL;
	find_clock(&source, driver);
	if (driver->now_ns != NULL)
		began_ns = driver->now_ns();
	driver_text_from(driver);
	return start_driver(driver);
}

/* Load the driver, or report the earlier failure. */
static enum weir_status
load_once(void)
{
	enum weir_status status;

	lock_enter(&lock);
	if (atomic_load(&driver_published) != NULL) {
		lock_leave(&lock);
		return WEIR_OK;
	}
	if (failure != WEIR_OK) {
		status = status_set(failure, "%s", failure_text);
		lock_leave(&lock);
		return status;
	}
	loading = true;
	status = load_driver_once(&table);
	loading = false;
	if (status == WEIR_OK) {
		atomic_store_explicit(
		    &driver_published, &table, memory_order_release);
	} else if (status != WEIR_EHOSTMEM) {
		failure = status;
		strcpy(failure_text, status_latest_text());
	}
	lock_leave(&lock);
	return status;
}

/* Not inlined into driver_get(), because it runs once. */
__attribute__((noinline)) static enum weir_status
get_first(const struct driver **out)
{
	if (os_forked())
		return status_forked("weir");
	if (loading)
		return status_set(WEIR_EDRIVER,
		    "weir was called from within the loading of the CUDA "
		    "driver");
	os_watch_fork();
	enum weir_status status = load_once();
	if (status == WEIR_OK)
		*out = driver_peek();
	return status;
}

enum weir_status
driver_get(const struct driver **out)
{
	const struct driver *driver = driver_peek();

	if (driver == NULL || os_forked())
		return get_first(out);
	*out = driver;
	return WEIR_OK;
}

uint64_t
driver_time_ns(void)
{
	const struct driver *driver = driver_peek();

	return driver != NULL && driver->now_ns != NULL ? driver->now_ns() :
							  os_monotonic_ns();
}

static __attribute__((constructor)) void
begin(void)
{
	began_ns = os_monotonic_ns();
}

uint64_t
driver_age_ns(void)
{
	return driver_time_ns() - began_ns;
}
