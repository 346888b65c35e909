/*
 * Lookups of driver symbols, and which of them return a hook.
 *
 * The real resolver is always called first. An entry that it does not find
 * stays missing. An entry that it finds is replaced only if it is the driver's
 * own and has a form that this library knows.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "preload/nvml_hooks.h"
#include "preload/preload.h"
#include "streams/capture.h"

static void *const functions[HOOK_COUNT] = {
#define HOOK_FUNCTION(name, base, version, streams, use, params) (void *)name,
	HOOKS(HOOK_FUNCTION)
#undef HOOK_FUNCTION
};

static enum hook_id
id_of(const struct hook *hook)
{
	return (enum hook_id)(hook - hooks);
}

/* Is this hook to be used in place of the driver's function now? */
static bool
stands_in(const struct hook *hook)
{
	if (hook == NULL || !gate_enabled())
		return false;
	switch (hook->use) {
	case HOOK_CHECK:
		return races_wanted() || held_wanted();
	case HOOK_HOLD:
		return held_wanted();
	default:
		return true;
	}
}

/*
 * An unknown entry of the driver is returned as it is. A newer driver may have
 * more ways to begin a capture. Then the hooks do not see every capture, and
 * weir asks the driver instead.
 */
static void
note_unknown(const char *name)
{
	static const char begins[] = "cuStreamBegin";

	if (strncmp(name, begins, sizeof(begins) - 1) == 0)
		capture_missed();
}

/* ---- dlsym ------------------------------------------------------------- */

static PLAIN struct lookup_answer
pass(void *jump)
{
	return (struct lookup_answer){ .jump = jump, .value = NULL };
}

static struct lookup_answer
answer_with(void *value)
{
	return (struct lookup_answer){ .jump = NULL, .value = value };
}

/*
 * RTLD_DEFAULT and RTLD_NEXT find the exported hooks in the program's search
 * order. But if no object after this library has the name, because the driver
 * is not loaded or was loaded for its user alone, the lookup must fail as it
 * would without weir.
 */
static bool
goes_by_order(void *handle)
{
	return handle == RTLD_DEFAULT || handle == RTLD_NEXT;
}

/* The answer to a query for an entry that has a hook; `found` is the real
 * answer. */
static struct lookup_answer
answer_for(const struct hook *hook, void *found)
{
	/* Do not replace another library's function of this name. */
	if (found != NULL && found == real_of(id_of(hook)))
		found = functions[id_of(hook)];
	return answer_with(found);
}

static __attribute__((noinline)) struct lookup_answer
ask(void *handle, const char *name)
{
	const struct hook *hook = hook_exported(name);

	if (hook == NULL) {
		note_unknown(name);
		return pass((void *)real_dlsym());
	}
	/* Search the libraries after this one. */
	if (goes_by_order(handle))
		return real_dlsym()(RTLD_NEXT, name) == NULL ?
		    answer_with(NULL) :
		    pass((void *)real_dlsym());
	if (!stands_in(hook))
		return pass((void *)real_dlsym());
	return answer_for(hook, real_dlsym()(handle, name));
}

static __attribute__((noinline)) struct lookup_answer
ask_version(void *handle, const char *name, const char *version)
{
	const struct hook *hook = hook_exported(name);

	if (hook == NULL) {
		note_unknown(name);
		return pass((void *)real_dlvsym());
	}
	if (goes_by_order(handle))
		return real_dlvsym()(RTLD_NEXT, name, version) == NULL ?
		    answer_with(NULL) :
		    pass((void *)real_dlvsym());
	if (!stands_in(hook))
		return pass((void *)real_dlvsym());
	return answer_for(hook, real_dlvsym()(handle, name, version));
}

static PLAIN bool
names_cuda(const char *name)
{
	return name != NULL && name[0] == 'c' && name[1] == 'u';
}

/* ---- NVML -------------------------------------------------------------- */

static PLAIN bool
names_nvml(const char *name)
{
	return name != NULL && name[0] == 'n' && name[1] == 'v' &&
	    name[2] == 'm' && name[3] == 'l';
}

/* As ask(), for a call of NVML. NVML's symbols have no
 * versions. */
static __attribute__((noinline)) struct lookup_answer
ask_nvml(void *handle, const char *name)
{
	void *hook = nvml_hook(name);
	void *found;

	if (hook == NULL || !gate_enabled())
		return pass((void *)real_dlsym());
	if (goes_by_order(handle))
		return real_dlsym()(RTLD_NEXT, name) == NULL ?
		    answer_with(NULL) :
		    pass((void *)real_dlsym());
	found = real_dlsym()(handle, name);
	return answer_with(
	    found != NULL && found == nvml_real(name) ? hook : found);
}

PLAIN struct lookup_answer
lookup_dlsym(void *handle, const char *name)
{
	if (names_nvml(name))
		return ask_nvml(handle, name);
	if (!names_cuda(name))
		return pass((void *)real_dlsym());
	return ask(handle, name);
}

PLAIN struct lookup_answer
lookup_dlvsym(void *handle, const char *name, const char *version)
{
	if (!names_cuda(name))
		return pass((void *)real_dlvsym());
	return ask_version(handle, name, version);
}

/* ---- cuGetProcAddress -------------------------------------------------- */

/* Ask the driver, by whichever form of the call it has. */
static CUresult
query(const char *symbol, void **function, int version, uint64_t flags)
{
	if (real_of(HOOK_cuGetProcAddress_v2) != NULL)
		return REAL(cuGetProcAddress_v2)(
		    symbol, function, version, flags, NULL);
	return REAL(cuGetProcAddress)(symbol, function, version, flags);
}

/* Is the form of an entry known? A version above HOOK_KNOWN_VERSION asks for a
 * known form if the driver returns the same address for HOOK_KNOWN_VERSION. */
static bool
form_known(const char *symbol, int version, uint64_t flags, void *found)
{
	static atomic_bool told;
	void *known = NULL;

	if (version <= HOOK_KNOWN_VERSION)
		return true;
	if (query(symbol, &known, HOOK_KNOWN_VERSION, flags) == CUDA_SUCCESS &&
	    known == found)
		return true;
	if (!atomic_exchange(&told, true))
		log_write(LOG_WARN,
		    "%s of CUDA %d.%d is newer than this weir: left to the "
		    "driver",
		    symbol, version / 1000, version % 1000 / 10);
	return false;
}

static void *
hook_or_found(const char *symbol, int version, uint64_t flags, void *found)
{
	enum { PER_THREAD_DEFAULT_STREAM = 2 };
	bool per_thread = (flags & PER_THREAD_DEFAULT_STREAM) != 0;
	const struct hook *hook;

	if (symbol == NULL || found == NULL)
		return found;
	hook = hook_queried(symbol, version, per_thread);
	if (hook != NULL && !stands_in(hook))
		return found;
	if (hook == NULL || !form_known(symbol, version, flags, found)) {
		note_unknown(symbol);
		return found;
	}
	return functions[id_of(hook)];
}

CUresult
cuGetProcAddress(
    const char *symbol, void **function, int version, uint64_t flags)
{
	CUresult code;

	report_call(HOOK_cuGetProcAddress);
	code = REAL(cuGetProcAddress)(symbol, function, version, flags);
	if (code == CUDA_SUCCESS && function != NULL)
		*function = hook_or_found(symbol, version, flags, *function);
	return code;
}

CUresult
cuGetProcAddress_v2(const char *symbol, void **function, int version,
    uint64_t flags, CUdriverProcAddressQueryResult *status)
{
	CUresult code;

	report_call(HOOK_cuGetProcAddress_v2);
	code =
	    REAL(cuGetProcAddress_v2)(symbol, function, version, flags, status);
	if (code == CUDA_SUCCESS && function != NULL)
		*function = hook_or_found(symbol, version, flags, *function);
	return code;
}
