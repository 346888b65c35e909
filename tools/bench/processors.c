/*
 * The processors that threads run on.
 */
#include <pthread.h>
#include <sched.h>

#include "tools/bench/bench.h"

static cpu_set_t allowed;
static pthread_once_t allowed_once = PTHREAD_ONCE_INIT;

static void
find_allowed(void)
{
	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		CPU_ZERO(&allowed);
}

unsigned
processors(void)
{
	pthread_once(&allowed_once, find_allowed);
	return (unsigned)CPU_COUNT(&allowed);
}

void
pin(unsigned i)
{
	cpu_set_t one;

	if (i >= processors())
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || i-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

void
unpin(void)
{
	if (processors() > 0)
		sched_setaffinity(0, sizeof(allowed), &allowed);
}
