/*
 * A trial: one trace that is played in a process of its own. It starts with an
 * empty arena, and its failure does not end the command.
 */
#ifndef TOOLS_WEIR_REPLAY_TRIAL_H
#define TOOLS_WEIR_REPLAY_TRIAL_H

#include <jansson.h>

#include "tools/weir/replay/player.h"

struct trial_choices {
	struct play_choices play;
	const char *conf; /* options of weir, or NULL */
	int device;       /* of a snapshot; -1: the first that has a trace */
};

/* False, and a complaint, if weir refuses the options that a flag gave, such as
 * "--conf". A child process asks it, so that this process has not used weir
 * when it starts trials. NULL is accepted. */
bool trial_conf_accepted(const char *flag, const char *conf);

/* Trials have no options of the environment from now on: those of a shell in
 * which a program is started by weir may write files. */
void trial_forget_environment(void);

/*
 * Play a trace, and wait for its end.
 *
 * @param figures  the object that `weir replay --json` prints, if the trace
 *                 was played to its end; else NULL. The caller releases it.
 * @return an enum tool_exit, after a complaint unless it is TOOL_DONE:
 *         TOOL_FOUND   there were faults or mismatches
 *         TOOL_FAILED  the trace could not be played
 */
int trial_run(
    const char *path, const struct trial_choices *choices, json_t **figures);

/*
 * Find the smallest limit, in steps of 2 MiB, at which no request of the trace
 * runs out of memory. The search is a bisection between the peak of live bytes
 * and the peak of held bytes without a limit. All trials below the limit have
 * failed. *bytes is 0 if requests fail without a limit, because the device is
 * too small.
 *
 * @param figures  of the trace without a limit
 * @return as trial_run()
 */
int trial_fit(const char *path, const struct trial_choices *choices,
    const json_t *figures, uint64_t *bytes);

/* Round bytes up to whole granules of physical memory, the step of the
 * search. */
uint64_t trial_granules(uint64_t bytes);

#endif
