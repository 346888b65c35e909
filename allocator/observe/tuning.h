/*
 * The numbers of this room that were chosen and can be chosen otherwise.
 */
#ifndef ALLOCATOR_OBSERVE_TUNING_H
#define ALLOCATOR_OBSERVE_TUNING_H

/* ---- The agent: agent.c ------------------------------------------------ */

enum {
	CLIENTS = 32,            /* watchers at a time */
	STACK_BYTES = 512 << 10, /* of its thread */
	NAP_MS = 5,
	GREET_NAP_MS = 1,
	REST_MS = 100, /* when the system has no more descriptors */
	GRACE_MS = 100,
	FLOOD_PER_S = 20,      /* requests of one watcher */
	GLANCE_MS = 10 * 1000, /* how often silent watchers are searched for */
	SILENCE_S = 120,
	END_S = 5,
	LAST_S = 8, /* for a snapshot at SIGTERM */
};

/* Bytes of stack to write a snapshot on. */
enum { AUTO_SNAPSHOT_STACK = 64 << 10 };

/* ---- Guard zones: guard.c ---------------------------------------------- */

/* Blocks whose zones are read under the arena's lock in one go. */
enum { ZONES_AT_ONCE = 64 };

/* ---- Snapshots: snapshot.c --------------------------------------------- */

/* Events that are copied under the history's lock in one go. */
enum { EVENTS_AT_ONCE = 1024 };

#endif
