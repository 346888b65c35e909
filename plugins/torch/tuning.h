/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef PLUGINS_TORCH_TUNING_H
#define PLUGINS_TORCH_TUNING_H

/* Slots of ended filters that are kept: a thread may still read one. */
enum { FILTER_SLOTS_KEPT = 64 };

/* Trackers of a process, and nested compile contexts of a thread. */
enum {
	TRACKERS_MAX = 16,
	CONTEXTS_MAX = 64,
};

#endif
