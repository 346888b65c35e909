/*
 * Who wants to be told, and telling them with no lock held.
 */
#ifndef TRACE_OBSERVE_H
#define TRACE_OBSERVE_H

#include <weir/trace.h>

/* Call every out-of-memory observer. The caller holds no lock. */
void observe_oom(const struct weir_oom *oom);

#endif
