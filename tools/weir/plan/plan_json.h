/*
 * The objects that weir plan --json prints (docs/json.md).
 */
#ifndef TOOLS_WEIR_PLAN_PLAN_JSON_H
#define TOOLS_WEIR_PLAN_PLAN_JSON_H

#include <jansson.h>

#include "tools/weir/plan/plan_check.h"
#include "tools/weir/plan/plan_find.h"

/*
 * The answer about a plan that was made, or that cannot be made.
 *
 * @param recording  its path
 * @param file       where the plan was written; NULL: no plan was
 * @return the caller releases it; NULL without memory
 */
json_t *plan_found_json(
    const char *recording, const char *file, const struct plan_found *found);

/* The answer about the plan in `file` and a newer recording. Likewise. */
json_t *plan_checked_json(const char *recording, const char *file,
    const struct plan_checked *checked);

#endif
