/*
 * history.h - invariant I-14: replaying the history gives the snapshot
 *
 * The replay knows addresses only: which are mapped, and which are live or
 * being freed. It gets them from the events alone, one snapshot's after the
 * other's.
 */
#ifndef TESTS_MODEL_HISTORY_H
#define TESTS_MODEL_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct history_replay;

/* Begin with an arena without memory and a history that begins now. */
struct history_replay *history_replay_new(void);
void history_replay_delete(struct history_replay *replay);

/*
 * Write a snapshot, replay its events after those of the earlier snapshots, and
 * compare; `weir check` must find no fault in it either. No other thread is at
 * work. The history is cleared afterwards.
 *
 * @param fault is called with each disagreement @return false if there is one
 */
bool history_replay_check(
    struct history_replay *replay, char *fault, size_t size);

#endif
