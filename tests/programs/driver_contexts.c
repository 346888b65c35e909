/*
 * A program with another context beside the primary one. It frees memory across
 * the two, and releases the primary context and retains it again.
 */
#include <stdio.h>

#include "common/cuda.h"

static struct cuda cuda;

static result
create(context *out)
{
	result (*function)(context *, unsigned, int);

	cuda_fetch("cuCtxCreate_v2", &function);
	return function(out, 0, 0);
}

static result
destroy(context old)
{
	result (*function)(context);

	cuda_fetch("cuCtxDestroy_v2", &function);
	return function(old);
}

static int
active(void)
{
	unsigned flags;
	int is_active = -1;

	MUST(cuda.get_state(0, &flags, &is_active));
	return is_active;
}

int
main(void)
{
	uint64_t wrong;
	context primary;
	context second;
	address a;
	address b;

	cuda_by_dlsym(&cuda);
	primary = cuda_start(&cuda);
	MUST(cuda.mem_alloc(&a, 100000));
	MUST(create(&second));
	wrong = churn(&cuda, 100, 1, NULL);
	MUST(cuda.mem_alloc(&b, 100000));
	printf("free of the other context's: %d\n", cuda.mem_free(a));
	MUST(cuda.set_current(primary));
	printf("and the other way round: %d\n", cuda.mem_free(b));
	wrong += churn(&cuda, 100, 2, NULL);
	printf("end of the second: %d\n", destroy(second));
	wrong += churn(&cuda, 100, 3, NULL);

	/* It is retained once and released once. */
	printf("active: %d", active());
	MUST(cuda.release(0));
	printf(", let go: %d", active());
	cuda_start(&cuda);
	printf(", back: %d\n", active());
	wrong += churn(&cuda, 100, 4, NULL);
	/* Each call pops one context from this thread's stack. */
	MUST(cuda.set_current(NULL));
	MUST(cuda.set_current(NULL));
	printf("without a context: %d\n", cuda.mem_alloc(&a, 1000));
	printf("wrong words: %llu\n", (unsigned long long)wrong);
	return wrong != 0;
}
