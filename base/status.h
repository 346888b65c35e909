/*
 * The status of the last failed call of each thread, and its one line of text.
 *
 * Every failure is described where it is found: `return status_set(WEIR_EINVAL,
 * "weir_free(%p): not allocated by weir", ptr);` A later failure on the same
 * thread replaces it. The text lives in pages of the thread, mapped at its
 * first failure.
 */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <stdarg.h>

#include <weir/weir.h>

/* Long enough for the out-of-memory report; longer texts are cut. */
enum { STATUS_TEXT_SIZE = 2048 };

/* Remember `status` (not WEIR_OK) and its text; returns `status`. */
enum weir_status status_set(enum weir_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Put "prefix: " before the text of the last failure; returns its status. */
enum weir_status status_prefix(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/*
 * Between mute and unmute (they nest, for the calling thread) failures are not
 * remembered: for tries whose failure is made good and must leave no trace.
 */
void status_mute(void);
void status_unmute(void);

/* The text of the last failure, muted or not. */
const char *status_latest_text(void);

/* End muting, and remember the last muted failure after all: it could not be
 * made good. Returns its status. Call it after a failure only. */
enum weir_status status_unmute_and_report(void);

#endif
