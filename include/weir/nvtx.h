/**
 * weir: ranges, marks and names for profilers, by NVTX.
 *
 * NVTX is how programs tell tools such as Nsight Systems what they are doing.
 * A tool names its library in the environment variable NVTX_INJECTION64_PATH
 * (tools set it for the programs that they start), or is in the process before
 * weir is used. weir calls that library directly: it needs no other library and
 * no header of NVIDIA's.
 *
 * Under `weir run --history` the tool is the history itself, unless another is
 * named: ranges and marks are its annotations.
 *
 * Without a tool each call is one load and a branch. The first call looks for
 * one; calls of other threads while it is being loaded are lost. Calls are
 * thread-safe, need no device and never fail: nothing in a program depends on
 * them. Texts are UTF-8 and are copied by the tool; NULL does nothing.
 */
#ifndef WEIR_NVTX_H
#define WEIR_NVTX_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Is a tool there? Looks for one if that has not been done. */
WEIR_API bool weir_nvtx_active(void);

/** Mark a moment. */
WEIR_API void weir_nvtx_mark(const char *text);

/**
 * Begin a range of the calling thread, within those that it has begun so.
 *
 * @return how many ranges it is in, from 0; negative without a tool
 */
WEIR_API int weir_nvtx_range_push(const char *text);

/** End the calling thread's innermost range. Returns its level, or a negative
 * number if there is none or no tool. */
WEIR_API int weir_nvtx_range_pop(void);

/** Begin a range that any thread may end. Returns its number; 0 without a
 * tool. */
WEIR_API uint64_t weir_nvtx_range_start(const char *text);

/** End a range by its number; 0 does nothing. */
WEIR_API void weir_nvtx_range_end(uint64_t range);

/** Name a stream. */
WEIR_API void weir_nvtx_name_stream(weir_stream stream, const char *name);

/** Name the calling thread. */
WEIR_API void weir_nvtx_name_thread(const char *name);

/**
 * Name memory by its first address, as a resource of NVTX.
 *
 * @return what weir_nvtx_forget() takes when the memory is freed; NULL without
 *         a tool
 */
WEIR_API void *weir_nvtx_name_memory(const void *ptr, const char *name);

/** Forget the name of memory; NULL does nothing. */
WEIR_API void weir_nvtx_forget(void *named);

#ifdef __cplusplus
}
#endif

#endif
