/*
 * Advice for the page of `weir view`.
 *
 * The page has the answer of `weir advise`, or the reason why it has none.
 */
#ifndef TOOLS_WEIR_ADVISE_ADVISE_PAGE_H
#define TOOLS_WEIR_ADVISE_ADVISE_PAGE_H

#include <jansson.h>
#include <stdbool.h>

#include "snapshot/model.h"

/*
 * Find the advice for each device that has a trace. A recording of more than
 * ADVISE_PAGE_EVENTS events is replayed only if `asked`. What cannot be
 * replayed is complained of, and has a reason in place of an answer.
 *
 * @param path   of the snapshot or trace; "-" is not replayed
 * @param whole  becomes false if a replay failed
 * @return a list of advice_json() with the members `device`, `serves` (an
 *         object: whether a line to copy serves the failed request), and
 *         `reason`: null, or why there is no answer. The caller releases it.
 */
json_t *advise_page(
    const struct snapshot *snapshot, const char *path, bool asked, bool *whole);

/* Such a list with one reason for all devices. */
json_t *advise_page_without(
    const struct snapshot *snapshot, const char *reason);

#endif
