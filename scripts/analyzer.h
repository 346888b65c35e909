/*
 * Facts that clang's analyser cannot see in one source file: these calls
 * return a failure exactly when one is passed to them. `make lint-tidy` puts
 * this before every file but those that define them; no build sees it.
 */
#include "base/status.h"
#include "driver/driver.h"

/* NOLINTBEGIN(bugprone-macro-parentheses) */
#define status_set(status, ...) (status_set(status, __VA_ARGS__), (status))
#define status_forked(call) (status_forked(call), WEIR_EFORK)
#define driver_status(code, ...)                                               \
	(driver_status(code, __VA_ARGS__),                                     \
	    (code) == CUDA_SUCCESS ? WEIR_OK : WEIR_EDRIVER)
/* NOLINTEND(bugprone-macro-parentheses) */

/* For simcuda/cudart, where cudaError_t is the status. */
#ifdef ANALYZE_CUDART
#include "simcuda/cudart/cudart.h"
#define runtime_error(code) (runtime_error(code), (code))
#define runtime_check(code)                                                    \
	((code) == CUDA_SUCCESS ? cudaSuccess : cudaErrorUnknown)
#endif
