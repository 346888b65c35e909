/*
 * The status of each thread's last failed call, and one line of text.
 *
 * Every failure is described where it occurs: `return status_set(WEIR_EINVAL,
 * "weir_free(%p): not allocated by weir", ptr);` A later failure on the same
 * thread replaces it. The text is in pages of the thread, which are mapped at
 * its first failure.
 */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <stdarg.h>

#include <weir/weir.h>

#include "base/tuning.h"

/* Record `status` (not WEIR_OK) and its text; returns `status`. */
enum weir_status status_set(enum weir_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Record that `call` is refused because this is a forked child; returns
 * WEIR_EFORK. Note [Forked children]. */
enum weir_status status_forked(const char *call);
/* Say that a failure that was just recorded is a failed system call's, with
 * this errno; returns `status`. */
enum weir_status status_errno(enum weir_status status, int error);

/* Put "prefix: " before the text of the last failure; returns its status. */
enum weir_status status_prefix(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/*
 * Between mute and unmute (which nest, for the calling thread) failures are not
 * recorded. This is for attempts whose failure is handled and must leave no
 * trace.
 */
void status_mute(void);
void status_unmute(void);

/* The text of the last failure, muted or not. */
const char *status_latest_text(void);

/* End muting, and record the last muted failure after all, because it could not
 * be handled. Returns its status. Call it only after a failure. */
enum weir_status status_unmute_and_report(void);

#endif
