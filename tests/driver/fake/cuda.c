/*
 * The fake driver of fake/cuda.h. It exports cuGetProcAddress_v2 and its
 * controls only, so that a test sees which lookup the loader uses.
 */
#include "tests/driver/fake/cuda.h"

#define VISIBLE __attribute__((visibility("default")))

VISIBLE extern struct fake_cuda fake_cuda;
VISIBLE void *fake_entry(const char *name);
VISIBLE CUresult cuGetProcAddress_v2(const char *name, void **address,
    int version, cuuint64_t flags, CUdriverProcAddressQueryResult *found);

struct fake_cuda fake_cuda = {
	.version = 13000,
	.devices = 2,
	.code = CUDA_ERROR_UNKNOWN,
};

/* The contexts of devices 0 and 1 are handles that are never dereferenced. */
static char contexts[2];

/* Contexts current on this thread, the last on top. */
static _Thread_local struct {
	CUcontext stack[8];
	int n;
	CUstreamCaptureMode mode;
} thread;

static void
count(int *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static CUresult
result(const char *name)
{
	if (fake_cuda.failing != NULL && strcmp(fake_cuda.failing, name) == 0)
		return fake_cuda.code;
	return CUDA_SUCCESS;
}

static CUresult
fake_cuInit(unsigned flags)
{
	(void)flags;
	count(&fake_cuda.inits);
	if (fake_cuda.on_init != NULL)
		fake_cuda.on_init();
	return result("cuInit");
}

static CUresult
fake_cuDriverGetVersion(int *version)
{
	*version = fake_cuda.version;
	return result("cuDriverGetVersion");
}

static CUresult
fake_cuGetErrorString(CUresult code, const char **text)
{
	bool known =
	    code == CUDA_ERROR_OUT_OF_MEMORY || code == CUDA_ERROR_UNKNOWN;

	*text = known ? "a fake text" : NULL;
	return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult
fake_cuDeviceGetCount(int *count)
{
	*count = fake_cuda.devices;
	return result("cuDeviceGetCount");
}

static CUresult
fake_cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return result("cuDeviceGet");
}

static CUresult
fake_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	count(&fake_cuda.retains);
	*context = (CUcontext)(void *)&contexts[device];
	/* A capture of another thread would forbid it otherwise. */
	if (thread.mode != CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return result("cuDevicePrimaryCtxRetain");
}

static CUresult
fake_cuCtxGetCurrent(CUcontext *context)
{
	*context = thread.n == 0 ? NULL : thread.stack[thread.n - 1];
	return result("cuCtxGetCurrent");
}

static CUresult
fake_cuCtxPushCurrent(CUcontext context)
{
	CUresult code = result("cuCtxPushCurrent");

	count(&fake_cuda.pushes);
	if (code == CUDA_SUCCESS)
		thread.stack[thread.n++] = context;
	return code;
}

static CUresult
fake_cuCtxPopCurrent(CUcontext *context)
{
	CUresult code = result("cuCtxPopCurrent");

	count(&fake_cuda.pops);
	if (code == CUDA_SUCCESS)
		*context = thread.stack[--thread.n];
	return code;
}

static CUresult
fake_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUresult code = result("cuThreadExchangeStreamCaptureMode");
	CUstreamCaptureMode before = thread.mode;

	count(&fake_cuda.exchanges);
	if (code == CUDA_SUCCESS) {
		thread.mode = *mode;
		*mode = before;
	}
	return code;
}

/* Represents every entry point that no test of the loader calls. */
static CUresult
not_here(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

struct entry {
	const char *name;
	void (*function)(void);
};

/* The first with the name counts. */
/* clang-format off */
static const struct entry known[] = {
#define KNOWN(name) { #name, (void (*)(void))fake_##name }
	KNOWN(cuInit),
	KNOWN(cuDriverGetVersion),
	KNOWN(cuGetErrorString),
	KNOWN(cuDeviceGetCount),
	KNOWN(cuDeviceGet),
	KNOWN(cuDevicePrimaryCtxRetain),
	KNOWN(cuCtxGetCurrent),
	KNOWN(cuCtxPushCurrent),
	KNOWN(cuCtxPopCurrent),
	KNOWN(cuThreadExchangeStreamCaptureMode),
#define OTHER(name, version, required, params)                                 \
	{ #name, (void (*)(void))not_here },
	DRIVER_ENTRIES(OTHER)
};
/* clang-format on */

void *
fake_entry(const char *name)
{
	void *address = NULL;

	if (fake_cuda.missing != NULL && strcmp(fake_cuda.missing, name) == 0)
		return NULL;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(known[i].name, name) == 0) {
			memcpy(&address, &known[i].function, sizeof(address));
			break;
		}
	}
	return address;
}

CUresult
cuGetProcAddress_v2(const char *name, void **address, int version,
    cuuint64_t flags, CUdriverProcAddressQueryResult *found)
{
	(void)flags;
	*address = version > 0 ? fake_entry(name) : NULL;
	*found = *address == NULL ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND :
				    CU_GET_PROC_ADDRESS_SUCCESS;
	return *address == NULL ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
