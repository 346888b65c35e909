/*
 * The thread that answers signals and watchers.
 */
#ifndef ALLOCATOR_OBSERVE_AGENT_H
#define ALLOCATOR_OBSERVE_AGENT_H

#include "allocator/options.h"

/* Begin the thread, if the options ask for one. Failures are logged. */
void agent_begin(const struct options *options);

#endif
