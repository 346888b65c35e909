#include "plugins/torch/forks.h"

#include <pthread.h>
#include <stdatomic.h>

#include <weir/weir.h>

static atomic_bool child;

static void
note_fork(void)
{
	atomic_store(&child, true);
}

static __attribute__((constructor)) void
watch_forks(void)
{
	pthread_atfork(NULL, NULL, note_fork);
}

bool
forks_refused(void)
{
	struct weir_option option;

	return __builtin_expect(
		   atomic_load_explicit(&child, memory_order_relaxed), 0) &&
	    weir_option_at(0, &option) == WEIR_EFORK;
}
