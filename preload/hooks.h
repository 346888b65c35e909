/*
 * The driver entries that the preload replaces, from driver/entries.h.
 *
 * A hook has the exported name of its entry, so the linker, dlsym() and
 * cuGetProcAddress() all return the same function. cuGetProcAddress() is called
 * with the base name and a version, and returns the newest form that is not
 * above this version. An entry stands for all versions from its own up to the
 * next entry with the same base name, as far as the forms are known
 * (HOOK_KNOWN_VERSION).
 */
#ifndef PRELOAD_HOOKS_H
#define PRELOAD_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "driver/abi.h"

/* The CUDA version that this table was made from. For later versions, a form is
 * taken to be unchanged only if the driver gives the same address for both. */
enum { HOOK_KNOWN_VERSION = 13000 };

/* The meaning of stream 0, for an entry that has two forms. */
enum hook_streams { HOOK_BOTH, HOOK_LEGACY, HOOK_PER_THREAD };

/* The purpose of a hook: the column `hook` of driver/entries.h. */
enum hook_use { HOOK_SERVE, HOOK_WATCH, HOOK_CHECK, HOOK_HOLD };

/*
 * X(exported name, base name, version, streams, use, parameters)
 */
#define HOOKS(X) DRIVER_CALLS(HOOK_OF_CALL, X)
#define HOOK_OF_CALL(                                                          \
    U, kind, symbol, base, version, simulated, hook, called, params)           \
	HOOK_IF_##hook(                                                        \
	    HOOK_OF_##kind, U, symbol, #base, version, HOOK_##hook, params)
#define HOOK_IF_NO(macro, ...)
#define HOOK_IF_SERVE(macro, ...) macro(__VA_ARGS__)
#define HOOK_IF_WATCH(macro, ...) macro(__VA_ARGS__)
#define HOOK_IF_CHECK(macro, ...) macro(__VA_ARGS__)
#define HOOK_IF_HOLD(macro, ...) macro(__VA_ARGS__)
#define HOOK_OF_P(X, symbol, base, version, use, params)                       \
	X(symbol, base, version, HOOK_BOTH, use, params)
#define HOOK_OF_S(X, symbol, base, version, use, params)                       \
	X(symbol, base, version, HOOK_LEGACY, use, params)                     \
	X(symbol##_ptsz, base, HOOK_SINCE(version), HOOK_PER_THREAD, use,      \
	    params)
#define HOOK_OF_D(X, symbol, base, version, use, params)                       \
	X(symbol, base, version, HOOK_LEGACY, use, params)                     \
	X(symbol##_ptds, base, HOOK_SINCE(version), HOOK_PER_THREAD, use,      \
	    params)
/* The version that brought the form for a thread's stream. */
#define HOOK_SINCE(version) ((version) < 7000 ? 7000 : (version))

enum hook_id {
#define HOOK_ID(name, base, version, streams, use, params) HOOK_##name,
	HOOKS(HOOK_ID)
#undef HOOK_ID
	    HOOK_COUNT
};

/* The hooks, and the function types of the entries they replace. */
#define HOOK_DECLARE(name, base, version, streams, use, params)                \
	typedef CUresult name##_function params;                               \
	WEIR_API CUresult name params;
HOOKS(HOOK_DECLARE)
#undef HOOK_DECLARE

/* One entry of the table. */
struct hook {
	const char *name; /* name that the driver exports */
	const char *base; /* name that cuGetProcAddress() knows */
	int version;
	enum hook_streams streams;
	enum hook_use use;
};

/* Indexed by enum hook_id, as the hooks' addresses in lookups.c are. */
extern const struct hook hooks[HOOK_COUNT];

/* The hook with an exported name; NULL if there is none. */
const struct hook *hook_exported(const char *name);

/* The hook of the entry that cuGetProcAddress() returns for a base name and a
 * version; NULL if there is none. */
const struct hook *hook_queried(const char *base, int version, bool per_thread);

#endif
