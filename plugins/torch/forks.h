/*
 * Forks. A forked child has one thread: a mutex that another thread of its
 * parent held stays locked in it for ever. Therefore each call that acquires a
 * mutex first asks whether this is a child that weir refuses to serve.
 */
#ifndef PLUGINS_TORCH_FORKS_H
#define PLUGINS_TORCH_FORKS_H

#include <stdbool.h>

/* Is this a forked child of a process that used weir? Then weir_last_status()
 * is WEIR_EFORK. One relaxed load in any other process. */
bool forks_refused(void);

#endif
