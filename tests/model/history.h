/*
 * history.h - invariant I-14: replaying the history gives the snapshot
 *
 * The replay knows addresses and nothing else: which are mapped, and which are
 * in the hands of callers or on their way back. It learns of them from the
 * events alone, one snapshot's after the other's.
 */
#ifndef TESTS_MODEL_HISTORY_H
#define TESTS_MODEL_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct history_replay;

/* Begin with an arena that has no memory yet and a history that begins now. */
struct history_replay *history_replay_new(void);
void history_replay_delete(struct history_replay *replay);

/*
 * Write a snapshot, replay the events it has on top of those before, and
 * compare. Nobody else is at work. The history is cleared afterwards.
 *
 * @param fault  is told what does not agree
 * @return false if anything does not
 */
bool history_replay_check(
    struct history_replay *replay, char *fault, size_t size);

#endif
