/*
 * The lock of the simulated driver, and the state that it guards.
 */
#include <pthread.h>
#include <unistd.h>

#include "simcuda/sim.h"
#include "simcuda/tuning.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct sim sim;

void
gate_lock(void)
{
	pthread_mutex_lock(&lock);
}

void
gate_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void
gate_pause(void)
{
	pthread_mutex_unlock(&lock);
	usleep(GATE_PAUSE_US);
	pthread_mutex_lock(&lock);
}

void
gate_wait(pthread_cond_t *condition)
{
	pthread_cond_wait(condition, &lock);
}
