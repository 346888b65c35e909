/*
 * The settings of a snapshot's allocator, and lines to copy that change one of
 * them.
 */
#ifndef TOOLS_WEIR_READING_SNAPSHOT_SETTINGS_H
#define TOOLS_WEIR_READING_SNAPSHOT_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "snapshot/model.h"

enum { SETTINGS_LINE = 512 }; /* bytes of a line */

/* True if weir wrote the snapshot. */
bool settings_of_weir(const struct snapshot *snapshot);

/* True if the snapshot's allocator has expandable segments. */
bool settings_expandable(const struct snapshot *snapshot);

/* The value of a setting that each device has, or NULL. */
const char *settings_of_device(
    const struct snapshot *snapshot, const char *name, uint32_t device);

/* How long waits that weir made held up streams of a device, with work or
 * without; 0: the snapshot does not say it. */
uint64_t settings_gpu_wait_ns(const struct snapshot *snapshot, uint32_t device);

/* The value of an option of weir that the program has set, or NULL. */
const char *settings_weir_option(
    const struct snapshot *snapshot, const char *key);

/* Write "export PYTORCH_CUDA_ALLOC_CONF=..." with the snapshot's settings and
 * one more, which PyTorch heeds in place of an earlier one. Returns `text`. */
const char *settings_torch_line(const struct snapshot *snapshot,
    const char *option, char text[SETTINGS_LINE]);

/* Write "export WEIR_CONF=..." with the options that the snapshot's program had
 * set, and one more in the place of its old value. Returns `text`. */
const char *settings_weir_line(const struct snapshot *snapshot, const char *key,
    const char *value, char text[SETTINGS_LINE]);

/* Write "key:value,...", for a replay: the options that the snapshot's program
 * had set and that say where memory comes from and goes, and one more in the
 * place of its old value, if `key` is not NULL. Others are left out, because
 * the file may come from anyone: the option `snapshot` would write a file. So
 * is a list that does not fit. Returns `text`. */
const char *settings_replayed(const struct snapshot *snapshot, const char *key,
    const char *value, char text[SETTINGS_LINE]);

#endif
