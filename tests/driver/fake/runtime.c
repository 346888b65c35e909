/*
 * The toolkit's side of fake/runtime.h: <cuda_runtime_api.h>, where it is
 * installed.
 */
#include "tests/driver/fake/runtime.h"

#define VISIBLE __attribute__((visibility("default")))

VISIBLE extern const struct runtime_toolkit runtime_toolkit;

#if __has_include(<cuda_runtime_api.h>)
#include <cuda_runtime_api.h>
#if CUDART_VERSION >= 13000
#define HAS_TOOLKIT 1
#endif
#endif

#if HAS_TOOLKIT
static const struct runtime_fact facts[] = { RUNTIME_FACTS };

const struct runtime_toolkit runtime_toolkit = {
	.version = CUDART_VERSION,
	.facts = facts,
	.n_facts = sizeof(facts) / sizeof(facts[0]),
};
#else
const struct runtime_toolkit runtime_toolkit = { .version = 0 };
#endif
