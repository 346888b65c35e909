/*
 * NVML's answers about memory, for a program with a limit.
 *
 * The program sees a device as large as its limit, of which it has used what
 * counts in it (`show_device:limit`), as cuMemGetInfo() shows it. The real call
 * always runs first, and an error is the program's. No context is made and the
 * driver is not initialised, because programs ask NVML in processes that must
 * not do so. There the options say the limit of every device.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "allocator/allocator.h"
#include "base/os.h"
#include "driver/driver.h"
#include "preload/nvml_hooks.h"
#include "preload/preload.h"

enum { NVML_SUCCESS = 0, NVML_NOT_FOUND = 13, UUID_TEXT = 96 };

/* ---- The library -------------------------------------------------------- */

void *
nvml_real(const char *symbol)
{
	static _Atomic(void *) kept;
	void *library = atomic_load(&kept);

	if (library == NULL) {
		library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_NOLOAD);
		if (library == NULL)
			return NULL;
		/* The reference keeps the library loaded, as the driver's. */
		atomic_store(&kept, library);
	}
	return real_dlsym()(library, symbol);
}

void *
nvml_hook(const char *symbol)
{
	static const struct {
		const char *symbol;
		void *function;
	} hooked[] = {
#define NVML_HOOK_ROW(name, params) { #name, (void *)name },
		NVML_HOOKS(NVML_HOOK_ROW)
#undef NVML_HOOK_ROW
	};

	for (size_t i = 0; i < sizeof(hooked) / sizeof(hooked[0]); i++)
		if (strcmp(hooked[i].symbol, symbol) == 0)
			return hooked[i].function;
	return NULL;
}

/* ---- The device --------------------------------------------------------- */

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Read the 16 bytes of "GPU-01234567-89ab-..." or "MIG-...". */
static bool
read_uuid(const char *text, CUuuid *out)
{
	unsigned n = 0;

	memset(out, 0, sizeof(*out));
	for (text += strcspn(text, "-"); *text != '\0'; text++) {
		int digit = hex_digit(*text);

		if (digit < 0)
			continue;
		if (n == 2 * sizeof(out->bytes))
			return false;
		((unsigned char *)out->bytes)[n / 2] |=
		    (unsigned char)(digit << (n % 2 == 0 ? 4 : 0));
		n++;
	}
	return n == 2 * sizeof(out->bytes);
}

/* The driver's number of NVML's device; -1: it has none, or weir has not
 * loaded the driver. */
static int
ordinal_of(nvml_handle device)
{
	const struct driver *driver = driver_peek();
	int (*ask)(nvml_handle, char *, unsigned);
	void *found = nvml_real("nvmlDeviceGetUUID");
	char text[UUID_TEXT];
	CUuuid wanted;
	CUuuid uuid;

	if (driver == NULL || found == NULL)
		return -1;
	ask = (int (*)(nvml_handle, char *, unsigned))found;
	if (ask(device, text, sizeof(text)) != NVML_SUCCESS ||
	    !read_uuid(text, &wanted))
		return -1;
	for (int i = 0; i < driver->device_count; i++)
		if (driver->cuDeviceGetUuid(&uuid, i) == CUDA_SUCCESS &&
		    memcmp(&uuid, &wanted, sizeof(uuid)) == 0)
			return i;
	return -1;
}

/* Show the program's part of a device. False: it sees the device. */
static bool
show(nvml_handle device, struct shown_memory *m)
{
	if (!gate_enabled() || gate_in_weir != 0 || os_forked())
		return false;
	gate_enter_weir();
	allocator_show_memory(ordinal_of(device), m);
	gate_leave_weir();
	return m->limited;
}

/* ---- Memory ------------------------------------------------------------- */

typedef int memory_query(nvml_handle device, struct nvml_memory *memory);

int
nvmlDeviceGetMemoryInfo(nvml_handle device, struct nvml_memory *memory)
{
	memory_query *real = (memory_query *)nvml_real(__func__);
	struct shown_memory m = { 0 };
	int code = real == NULL ? NVML_NOT_FOUND : real(device, memory);

	if (code != NVML_SUCCESS)
		return code;
	m.free_bytes = memory->free;
	m.total_bytes = memory->total;
	if (show(device, &m))
		*memory = (struct nvml_memory){ .total = m.total_bytes,
			.free = m.free_bytes,
			.used = m.total_bytes - m.free_bytes };
	return code;
}

/* The device's reserved memory is not the program's part. */
int
nvmlDeviceGetMemoryInfo_v2(nvml_handle device, struct nvml_memory_v2 *memory)
{
	int (*real)(nvml_handle, struct nvml_memory_v2 *) =
	    (int (*)(nvml_handle, struct nvml_memory_v2 *))nvml_real(__func__);
	struct shown_memory m = { 0 };
	int code = real == NULL ? NVML_NOT_FOUND : real(device, memory);

	if (code != NVML_SUCCESS)
		return code;
	m.free_bytes = memory->free;
	m.total_bytes = memory->total;
	if (show(device, &m))
		*memory = (struct nvml_memory_v2){ .version = memory->version,
			.total = m.total_bytes,
			.free = m.free_bytes,
			.used = m.total_bytes - m.free_bytes };
	return code;
}

/* ---- Processes ---------------------------------------------------------- */

/* The beginning of a row of each list. */
struct process_row {
	unsigned pid;
	unsigned long long used;
};

enum { ROW_V1 = 16, ROW_V2 = 24, ROW_DETAIL = 32 };

/* Write what this process has used in its row. NVML gives the numbers of the
 * outermost namespace, so that a process in a container may find none. */
static void
show_processes(nvml_handle device, void *rows, unsigned count, size_t stride)
{
	memory_query *real =
	    (memory_query *)nvml_real("nvmlDeviceGetMemoryInfo");
	struct nvml_memory memory;
	struct shown_memory m = { 0 };

	if (rows == NULL || real == NULL ||
	    real(device, &memory) != NVML_SUCCESS)
		return;
	m.free_bytes = memory.free;
	m.total_bytes = memory.total;
	if (!show(device, &m))
		return;
	for (unsigned i = 0; i < count; i++) {
		struct process_row row;
		char *at = (char *)rows + i * stride;

		memcpy(&row, at, sizeof(row));
		if (row.pid != (unsigned)getpid())
			continue;
		row.used = m.used_bytes;
		memcpy(at, &row, sizeof(row));
	}
}

/* A list of processes, with rows of this many bytes. */
#define NVML_LIST(name, stride)                                                \
	int name(nvml_handle device, unsigned *count, void *rows)              \
	{                                                                      \
		int (*real)(nvml_handle, unsigned *, void *) = (int (*)(       \
		    nvml_handle, unsigned *, void *))nvml_real(#name);         \
		int code =                                                     \
		    real == NULL ? NVML_NOT_FOUND : real(device, count, rows); \
		if (code == NVML_SUCCESS)                                      \
			show_processes(device, rows, *count, stride);          \
		return code;                                                   \
	}

NVML_LIST(nvmlDeviceGetComputeRunningProcesses, ROW_V1)
NVML_LIST(nvmlDeviceGetComputeRunningProcesses_v2, ROW_V2)
NVML_LIST(nvmlDeviceGetComputeRunningProcesses_v3, ROW_V2)
NVML_LIST(nvmlDeviceGetGraphicsRunningProcesses, ROW_V1)
NVML_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, ROW_V2)
NVML_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, ROW_V2)
NVML_LIST(nvmlDeviceGetMPSComputeRunningProcesses, ROW_V1)
NVML_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, ROW_V2)
NVML_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, ROW_V2)

int
nvmlDeviceGetRunningProcessDetailList(
    nvml_handle device, struct nvml_details *details)
{
	int (*real)(nvml_handle, struct nvml_details *) =
	    (int (*)(nvml_handle, struct nvml_details *))nvml_real(__func__);
	int code = real == NULL ? NVML_NOT_FOUND : real(device, details);

	if (code == NVML_SUCCESS)
		show_processes(
		    device, details->rows, details->count, ROW_DETAIL);
	return code;
}
