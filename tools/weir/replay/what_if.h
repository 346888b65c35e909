/*
 * The memory that a recording would have held under other settings.
 */
#ifndef TOOLS_WEIR_REPLAY_WHAT_IF_H
#define TOOLS_WEIR_REPLAY_WHAT_IF_H

#include <jansson.h>
#include <stdbool.h>

#include "snapshot/model.h"
#include "tools/weir/tuning.h"

struct what_if {
	size_t count;
	const char *settings[WHAT_IF_MOST];
};

enum { WHAT_IF_WHY = 320 };

/*
 * Add a setting: "weir", weir's options as "key:value,key:value", or "torch"
 * and "torch,key:value" for the model of PyTorch's allocator. Either may have
 * limit:BYTES. The text stays the caller's. False, and `why` names the fault.
 */
bool what_if_add(
    struct what_if *what_if, const char *setting, char why[WHAT_IF_WHY]);

/* Add the settings that most people ask about. */
void what_if_add_usual(struct what_if *what_if);

/*
 * Play all devices' traces of a snapshot under each setting, on the simulated
 * device, in processes of their own.
 *
 * @param path  the file of the snapshot, which is read again; not stdin
 * @return a list of {device, setting, span_us, held, peak_held_bytes, ooms,
 *         host_waits, gpu_waits, gpu_wait_us, driver_calls}. Of the model of
 *         PyTorch's allocator the waits are null. NULL after a complaint.
 */
json_t *what_if_play(const struct what_if *what_if, const char *path,
    const struct snapshot *snapshot);

#endif
