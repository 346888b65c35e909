/*
 * docs/behaviours.md, lazy_init and no_triton_on_import: loading weir touches
 * no GPU. The shared library is loaded here, as a program would.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <weir/trace.h>

#include "tests/support/cuda.h"
#include "tests/support/device.h"

/* The driver's library if this process has loaded it; otherwise NULL. */
static void *
driver_library(int flags)
{
	const char *name = getenv("WEIR_LIBCUDA");

	return dlopen(name != NULL ? name : "libcuda.so.1", RTLD_NOW | flags);
}

static void *
load_weir(void)
{
	char path[4096];
	void *library;

	snprintf(path, sizeof(path), "%s/lib/libweir.so", test_build_dir());
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		FAIL("%s", dlerror());
	return library;
}

TEST(loading_weir_does_not_load_the_driver)
{
	load_weir();
	EXPECT_NULL(driver_library(RTLD_NOLOAD));
	EXPECT_NULL(driver_peek());
}

/* A driver that is loaded already is not called either. */
TEST(loading_weir_does_not_initialise_the_driver)
{
	void *driver = driver_library(0);
	CUresult (*count_devices)(int *);
	CUresult (*initialise)(unsigned);
	enum weir_status (*init)(void);
	int count = -1;

	EXPECT_NOT_NULL(driver);
	*(void **)&count_devices = dlsym(driver, "cuDeviceGetCount");
	*(void **)&initialise = dlsym(driver, "cuInit");
	EXPECT_EQ(count_devices(&count), CUDA_ERROR_NOT_INITIALIZED);
	void *weir = load_weir();
	EXPECT_EQ(count_devices(&count), CUDA_ERROR_NOT_INITIALIZED);
	*(void **)&init = dlsym(weir, "weir_init");
	EXPECT_OK(init());
	EXPECT_EQ(count_devices(&count), CUDA_SUCCESS);
	EXPECT_GE(count, 1);
}

static void
ignore(const struct weir_oom *oom, void *user)
{
	(void)oom;
	(void)user;
}

TEST(calls_that_need_no_device_do_not_load_the_driver)
{
	struct weir_option option;
	struct weir_event *event;
	struct weir_stats s = { 0 };
	const char *name;
	uint64_t value;

	EXPECT_STR_EQ(weir_version(), "0.1.0");
	EXPECT_STR_EQ(weir_status_name(WEIR_OK), "WEIR_OK");
	EXPECT_EQ(weir_last_status(), WEIR_OK);
	EXPECT_STR_EQ(weir_last_error(), "");
	EXPECT_OK(weir_option_at(0, &option));
	conf("prefer:balance");
	EXPECT(weir_stats_item(&s, 0, &name, &value));
	EXPECT_OK(weir_oom_observer_add(ignore, NULL));
	EXPECT_OK(weir_event_create(0, &event));
	EXPECT_OK(weir_event_query(event));
	EXPECT_OK(weir_event_destroy(event));
	EXPECT_OK(weir_free(NULL));
	EXPECT_EQ(weir_check(NULL, 0), 0);
	EXPECT_NO_MEMORY(weir_malloc(0, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_free(&s), WEIR_EINVAL);
	EXPECT_NULL(driver_library(RTLD_NOLOAD));
	EXPECT_NULL(driver_peek());
	EXPECT_OK(weir_init());
	EXPECT_NOT_NULL(driver_peek());
	EXPECT_NOT_NULL(driver_library(RTLD_NOLOAD));
	EXPECT_OK(weir_init());
}

TEST(initialising_makes_no_context)
{
	unsigned flags;
	int active = -1;

	EXPECT_OK(weir_init());
	cuda_load();
	CU(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
	EXPECT_EQ(active, 0);
	give(take(512, NULL));
	CU(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
	EXPECT_EQ(active, 1);
}
