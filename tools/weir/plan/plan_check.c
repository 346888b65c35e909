/*
 * Follows a plan as weir does, without memory.
 */
#include "tools/weir/plan/plan_check.h"

#include "snapshot/plan_follow.h"
#include "tools/weir/tool.h"

static void
check_request(struct plan_follow *follow, const struct plan_request *request,
    struct plan_checked *out)
{
	const struct plan_entry *entry =
	    plan_follow(follow, request->stream, request->size);

	out->planned += entry != NULL && entry->offset != PLAN_NO_PLACE;
	if (follow->others > 0 && out->first_other == 0) {
		out->first_other = follow->count;
		out->first_other_size = request->size;
	}
	if (follow->ended)
		out->dropped_at = follow->count;
}

void
plan_check_requests(const struct plan *plan,
    const struct plan_requests *requests, struct plan_checked *out)
{
	struct plan_follow follow;

	plan_follow_begin(&follow, plan);
	for (uint32_t i = 0; i < requests->total && !follow.ended; i++)
		check_request(&follow, &requests->list[i], out);
	out->requests = requests->total;
	out->rounds = follow.rounds;
	out->others = follow.others;
	out->joined = follow.joined;
}

bool
plan_check(const struct plan *plan, const char *path, int device,
    struct plan_checked *out)
{
	struct plan_requests requests;
	struct trace_error error;
	struct trace trace;
	bool good;

	*out = (struct plan_checked){ 0 };
	if (!trace_read_device(path, device, &trace, &error)) {
		complain("%s", error.text);
		return false;
	}
	good = plan_requests_make(&trace, &requests);
	if (good) {
		plan_check_requests(plan, &requests, out);
		plan_requests_drop(&requests);
	}
	trace_drop(&trace);
	return good;
}
