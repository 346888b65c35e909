/*
 * Groups as JSON, for `weir group --json` and the live page.
 */
#ifndef TOOLS_WEIR_LIVE_GROUP_JSON_H
#define TOOLS_WEIR_LIVE_GROUP_JSON_H

#include "tools/weir/live/ledgers.h"

struct json_t;

/* A ledger with its members (docs/json.md). */
struct json_t *group_json(const struct found_ledger *found);

#endif
