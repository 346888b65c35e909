/*
 * Names that a program passes to cuGetProcAddress(), of simcuda behind the
 * preload. The input is a version of 4 bytes, flags of 1 byte (above 127: 8
 * more bytes) and the name. The found function has the requested name, in a
 * form of the driver or of the preload, and uses the default stream that the
 * flags select. Both forms of the call, and a second call, find the same
 * function.
 */
#include <stdio.h>
#include <string.h>

#include "preload/hooks.h"
#include "tests/fuzz/preload.h"

enum { PER_THREAD = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM };

static bool
ends(const char *text, const char *end)
{
	size_t n = strlen(text);
	size_t m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

/* "cuMemAlloc" is the base of cuMemAlloc, cuMemAlloc_v2, cuMemAlloc_v2_ptsz. */
static void
expect_form(const void *found, const char *base, bool per_thread)
{
	Dl_info info = { 0 };
	size_t length = strlen(base);

	fuzz_expect(dladdr(found, &info) != 0 && info.dli_fname != NULL,
	    "an address in no library");
	fuzz_expect(strstr(info.dli_fname, "libcuda.so") != NULL ||
		strstr(info.dli_fname, "libweir_preload") != NULL,
	    "an address in another library");
	/* Some entry points are no symbols; dladdr() names the symbol before
	 * them. */
	if (info.dli_saddr != found)
		return;
	fuzz_expect(strncmp(info.dli_sname, base, length) == 0 &&
		(info.dli_sname[length] == '\0' ||
		    info.dli_sname[length] == '_'),
	    info.dli_sname);
	fuzz_expect(per_thread ||
		(!ends(info.dli_sname, "_ptsz") &&
		    !ends(info.dli_sname, "_ptds")),
	    "streams of the thread without the flag");
}

static void
ask(const char *name, int version, uint64_t flags)
{
	void *first = NULL;
	void *second = NULL;
	void *again = NULL;
	CUdriverProcAddressQueryResult status =
	    (CUdriverProcAddressQueryResult)-1;
	CUresult old = cuGetProcAddress(name, &first, version, flags);
	CUresult code =
	    cuGetProcAddress_v2(name, &second, version, flags, &status);

	/* A missing entry point is an error of the older form only. */
	fuzz_expect(old == code ||
		(old == CUDA_ERROR_NOT_FOUND && code == CUDA_SUCCESS),
	    "the two forms differ in their result");
	fuzz_expect(
	    cuGetProcAddress_v2(name, &again, version, flags, NULL) == code &&
		again == second,
	    "a second call finds another function");
	if (code != CUDA_SUCCESS) {
		fuzz_expect(first == NULL && second == NULL,
		    "a failed call changes the function");
		return;
	}
	fuzz_expect(first == second, "the two forms find different functions");
	fuzz_expect((status == CU_GET_PROC_ADDRESS_SUCCESS) == (second != NULL),
	    "the status and the function differ");
	if (second != NULL)
		expect_form(second, name, (flags & PER_THREAD) != 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_steps steps = { data, data + size };
	static bool ready;

	if (!ready)
		fuzz_init();
	ready = true;
	int version = (int)(uint32_t)fuzz_number(&steps, 4);
	uint64_t flags = fuzz_byte(&steps);

	if (flags > 127)
		flags = fuzz_number(&steps, 8);
	char *name = fuzz_text(steps.at, (size_t)(steps.end - steps.at));

	ask(name, version, flags);
	free(name);
	return 0;
}
