/*
 * SIMCUDA_CONF, the exports of simcuda's library, and its life from first call
 * to exit.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simcuda/nvml/nvml.h"
#include "tests/support/cuda.h"

static void
need_sim(void)
{
	if (sim() == NULL)
		SKIP("this is of the simulated driver only");
}

/* ---- Configuration ------------------------------------------------------ */

TEST(devices_memory_and_version_are_as_configured)
{
	int n = 0, version = 0;
	size_t bytes = 0;
	char first[32], second[32];
	CUuuid a, b;

	need_sim();
	cuda_load_conf("devices:3,memory_mb:100,version:12040");
	CU(cu.cuInit(0));
	CU(cu.cuDeviceGetCount(&n));
	EXPECT_EQ(n, 3);
	CU(cu.cuDeviceTotalMem_v2(&bytes, 2));
	EXPECT_EQ(bytes, 100 << 20);
	CU(cu.cuDriverGetVersion(&version));
	EXPECT_EQ(version, 12040);
	CU(cu.cuDeviceGetPCIBusId(first, sizeof(first), 0));
	CU(cu.cuDeviceGetPCIBusId(second, sizeof(second), 1));
	EXPECT_NE(strcmp(first, second), 0);
	CU(cu.cuDeviceGetUuid_v2(&a, 0));
	CU(cu.cuDeviceGetUuid_v2(&b, 1));
	EXPECT_NE(memcmp(&a, &b, sizeof(a)), 0);
	CU(cu.cuDeviceCanAccessPeer(&n, 0, 2));
	EXPECT_EQ(n, 1);
}

TEST(without_devices_there_is_none)
{
	need_sim();
	cuda_load_conf("devices:0");
	EXPECT_CU(cu.cuInit(0), CUDA_ERROR_NO_DEVICE);
}

TEST(a_setting_can_be_read)
{
	uint64_t value = 0;

	need_sim();
	setenv("SIMCUDA_CONF", "processes:3", 1);
	EXPECT_EQ(sim()->setting("processes", &value), 0);
	EXPECT_EQ(value, 3);
	EXPECT_EQ(sim()->setting("memory_mb", &value), 0);
	EXPECT_EQ(value, 16384);
	EXPECT_EQ(sim()->setting("nonsense", &value), -1);
}

/* The text on stderr when the driver starts with this configuration. */
static const char *
complaint(const char *conf)
{
	static char text[512];
	int ends[2], status;
	size_t length = 0;
	ssize_t n;

	EXPECT_EQ(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(ends[1], STDERR_FILENO);
		cuda_load_conf(conf);
		_exit(cu.cuInit(0) == CUDA_ERROR_INVALID_VALUE ? 0 : 1);
	}
	close(ends[1]);
	/* The text may come in pieces. */
	while (
	    (n = read(ends[0], text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)n;
	EXPECT_EQ(n, 0);
	text[length] = '\0';
	close(ends[0]);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	return text;
}

TEST(a_wrong_setting_is_reported_and_nothing_starts)
{
	need_sim();
	EXPECT_STR_HAS(complaint("nonsense:1"), "no such key: nonsense:1");
	EXPECT_STR_HAS(complaint("devices"), "no such key: devices");
	EXPECT_STR_HAS(
	    complaint("devices:17"), "devices:17: not a number from");
	EXPECT_STR_HAS(complaint("devices:x"), "devices:x");
	EXPECT_STR_HAS(complaint("devices:"), "devices:");
	EXPECT_STR_HAS(complaint("devices:-1"), "devices:-1");
	EXPECT_STR_HAS(complaint("devices: 1"), "devices: 1: not a number");
	EXPECT_STR_HAS(complaint("devices:+1"), "devices:+1: not a number");
	EXPECT_STR_HAS(complaint("seed: -1"), "seed: -1: not a number");
	EXPECT_STR_HAS(complaint("devices:1,memory_mb:1"), "memory_mb:1");
	EXPECT_STR_HAS(
	    complaint("call_ns:99999999999999999999"), "call_ns:9999");
}

TEST(every_nth_call_fails_if_requested)
{
	unsigned failed = 0;

	need_sim();
	cuda_load_conf("fail_every:10");
	CU(cu.cuInit(0));
	for (int i = 0; i < 100; i++) {
		CUcontext context = NULL;

		failed += cu.cuDevicePrimaryCtxRetain(&context, 0) ==
		    CUDA_ERROR_OUT_OF_MEMORY;
	}
	EXPECT_EQ(failed, 10);
	EXPECT_EQ(sim()->faults(), 10);
}

TEST(events_are_held_from_the_start_if_asked_to)
{
	unsigned held = 0;

	need_sim();
	cuda_begin_conf("hold_ns:1000000,seed:7,call_ns:0");
	CUstream stream = cuda_stream();
	for (int i = 0; i < 20; i++) {
		CUevent event = cuda_event();

		CU(cu.cuEventRecord(event, stream));
		held += cu.cuEventQuery(event) == CUDA_ERROR_NOT_READY;
	}
	EXPECT_GT(held, 15);
}

TEST(a_violation_ends_the_process_if_asked_to)
{
	int status;

	need_sim();
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		(void)!freopen("/dev/null", "w", stderr);
		cuda_begin_conf("abort:1");
		cuda_fill(NULL, 4096, 1, 1);
		cu.cuCtxSynchronize();
		_exit(0);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT(WIFSIGNALED(status));
}

/* ---- What the library shows --------------------------------------------- */

TEST(found_entry_points_are_the_exported_symbols)
{
	static const struct {
		const char *name, *symbol;
		int version;
		cuuint64_t flags;
	} entries[] = {
		{ "cuMemAlloc", "cuMemAlloc_v2", 3020, 0 },
		{ "cuMemAlloc", "cuMemAlloc_v2", 12000, 2 },
		{ "cuInit", "cuInit", 13000, 0 },
		{ "cuStreamQuery", "cuStreamQuery", 7000, 0 },
		{ "cuStreamQuery", "cuStreamQuery", 7000, 1 },
		{ "cuStreamQuery", "cuStreamQuery_ptsz", 7000, 2 },
		{ "cuMemcpyHtoD", "cuMemcpyHtoD_v2_ptds", 7000, 2 },
		{ "cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo", 10010,
		    0 },
		{ "cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", 12020,
		    0 },
		{ "cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v3_ptsz",
		    12030, 2 },
		{ "cuGetProcAddress", "cuGetProcAddress", 11030, 0 },
		{ "cuGetProcAddress", "cuGetProcAddress_v2", 12000, 0 },
		{ "cuEventElapsedTime", "cuEventElapsedTime_v2", 13000, 0 },
	};
	void *library;

	need_sim();
	cuda_load();
	library = dlopen(getenv("WEIR_LIBCUDA"), RTLD_NOW | RTLD_LOCAL);
	EXPECT_NOT_NULL(library);
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		void *found = NULL;

		CU(cu.cuGetProcAddress_v2(entries[i].name, &found,
		    entries[i].version, entries[i].flags, NULL));
		if (found != dlsym(library, entries[i].symbol))
			FAIL("%s at %d is not %s", entries[i].name,
			    entries[i].version, entries[i].symbol);
	}
}

TEST(the_empty_name_is_tolerated)
{
	CUdriverProcAddressQueryResult status;
	const void *table = NULL;
	void *found = &status;
	CUuuid id = { { 1 } };

	need_sim();
	cuda_load();
	CU(cu.cuGetProcAddress_v2("", &found, 2000, 0, &status));
	EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	EXPECT_CU(cu.cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
}

/* A preloaded library may define the same names; simcuda still calls its
 * own. */
TEST(the_library_calls_itself_and_nobody_else)
{
	CUstream stream = NULL;

	need_sim();
	cuda_begin();
	sim()->reset();
	/* Here the wrapper must reach the call behind it. */
	CU(cu.cuStreamQuery_ptsz(stream));
	EXPECT_EQ(sim()->calls("cuStreamQuery"), 1);
}

/* ---- The end ------------------------------------------------------------ */

static void
call_at_exit(void)
{
	CUdeviceptr address;
	int n;

	if (cu.cuMemAlloc_v2(&address, 512) != CUDA_ERROR_DEINITIALIZED ||
	    cu.cuDeviceGetCount(&n) != CUDA_ERROR_DEINITIALIZED ||
	    cu.cuInit(0) != CUDA_ERROR_DEINITIALIZED)
		_exit(3);
}

TEST(at_exit_the_driver_is_gone)
{
	int status;

	need_sim();
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		/* The handler that is registered first runs last. */
		atexit(call_at_exit);
		cuda_begin();
		exit(0);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
}

/* ---- NVML --------------------------------------------------------------- */

static struct {
	nvmlReturn_t (*init)(void);
	nvmlReturn_t (*shut_down)(void);
	nvmlReturn_t (*by_index)(unsigned index, nvmlDevice_t *device);
	nvmlReturn_t (*by_bus_id)(const char *id, nvmlDevice_t *device);
	nvmlReturn_t (*by_uuid)(const char *uuid, nvmlDevice_t *device);
	nvmlReturn_t (*count)(unsigned *n);
	nvmlReturn_t (*uuid)(nvmlDevice_t device, char *out, unsigned size);
	nvmlReturn_t (*memory)(nvmlDevice_t device, nvmlMemory_t *memory);
	nvmlReturn_t (*processes)(
	    nvmlDevice_t device, unsigned *n, nvmlProcessInfo_t *out);
	const char *(*text)(nvmlReturn_t result);
} nvml;

static void
nvml_load(void)
{
	static const struct {
		const char *symbol;
		void *out;
	} calls[] = {
		{ "nvmlInit_v2", &nvml.init },
		{ "nvmlShutdown", &nvml.shut_down },
		{ "nvmlDeviceGetHandleByIndex_v2", &nvml.by_index },
		{ "nvmlDeviceGetHandleByPciBusId_v2", &nvml.by_bus_id },
		{ "nvmlDeviceGetHandleByUUID", &nvml.by_uuid },
		{ "nvmlDeviceGetCount_v2", &nvml.count },
		{ "nvmlDeviceGetUUID", &nvml.uuid },
		{ "nvmlDeviceGetMemoryInfo", &nvml.memory },
		{ "nvmlDeviceGetComputeRunningProcesses_v3", &nvml.processes },
		{ "nvmlErrorString", &nvml.text },
	};
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (library == NULL)
		FAIL("%s", dlerror());
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		void *symbol = dlsym(library, calls[i].symbol);

		EXPECT_NOT_NULL(symbol);
		memcpy(calls[i].out, &symbol, sizeof(symbol));
	}
}

TEST(nvml_is_of_the_same_devices)
{
	nvmlDevice_t device = NULL, other = NULL;
	char bus_id[32], uuid[64];
	unsigned n = 0;

	need_sim();
	cuda_load_conf("devices:2,memory_mb:100");
	nvml_load();
	EXPECT_EQ(nvml.count(&n), NVML_ERROR_UNINITIALIZED);
	EXPECT_EQ(nvml.init(), NVML_SUCCESS);
	EXPECT_EQ(nvml.count(&n), NVML_SUCCESS);
	EXPECT_EQ(n, 2);
	CU(cu.cuInit(0));
	CU(cu.cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), 1));
	EXPECT_EQ(nvml.by_bus_id(bus_id, &device), NVML_SUCCESS);
	EXPECT_EQ(nvml.by_index(1, &other), NVML_SUCCESS);
	EXPECT_EQ(device, other);
	EXPECT_EQ(nvml.uuid(device, uuid, sizeof(uuid)), NVML_SUCCESS);
	EXPECT_EQ(nvml.by_uuid(uuid, &other), NVML_SUCCESS);
	EXPECT_EQ(device, other);
	EXPECT_EQ(nvml.by_index(2, &other), NVML_ERROR_INVALID_ARGUMENT);
	EXPECT_EQ(nvml.by_bus_id("0000:77:00.0", &other), NVML_ERROR_NOT_FOUND);
	EXPECT_EQ(nvml.shut_down(), NVML_SUCCESS);
	EXPECT_EQ(nvml.shut_down(), NVML_ERROR_UNINITIALIZED);
	EXPECT_STR_EQ(nvml.text(NVML_ERROR_NOT_FOUND), "Not Found");
}

TEST(nvml_sees_memory_and_processes)
{
	nvmlProcessInfo_t list[8];
	nvmlMemory_t memory;
	nvmlDevice_t device = NULL;
	unsigned n = 8;

	need_sim();
	setenv("SIMCUDA_CONF", "processes:2,process_mb:10,memory_mb:100", 1);
	nvml_load();
	EXPECT_EQ(nvml.init(), NVML_SUCCESS);
	EXPECT_EQ(nvml.by_index(0, &device), NVML_SUCCESS);
	EXPECT_EQ(nvml.processes(device, &n, list), NVML_SUCCESS);
	EXPECT_EQ(n, 2);
	cuda_begin();
	cuda_alloc(4 << 20);
	n = 0;
	EXPECT_EQ(
	    nvml.processes(device, &n, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
	EXPECT_EQ(n, 3);
	EXPECT_EQ(nvml.processes(device, &n, list), NVML_SUCCESS);
	EXPECT_EQ(list[0].pid, getpid());
	EXPECT_EQ(list[0].usedGpuMemory, 4 << 20);
	EXPECT_EQ(list[2].usedGpuMemory, 10 << 20);
	EXPECT_EQ(nvml.memory(device, &memory), NVML_SUCCESS);
	EXPECT_EQ(memory.used, 24 << 20);
	EXPECT_EQ(memory.used + memory.free, memory.total);
}
