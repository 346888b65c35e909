/*
 * Makes the objects of weir plan --json.
 */
#include "tools/weir/plan/plan_json.h"

#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/tool.h"

static void
put_text_or_null(json_t *object, const char *key, const char *text)
{
	json_object_set_new(
	    object, key, text == NULL ? json_null() : json_of_text(text));
}

/* Put a number, or null if there is none. */
static void
put_number_if(json_t *object, const char *key, bool is_there, uint64_t number)
{
	if (is_there)
		put_number(object, key, number);
	else
		json_object_set_new(object, key, json_null());
}

static json_t *
figures_json_of(const struct plan_figures *figures)
{
	json_t *json = json_object();

	put_number(json, "peak_live_bytes", figures->live);
	put_number(json, "peak_held_bytes", figures->held);
	put_number(json, "map_calls", figures->map_calls);
	put_number(json, "gpu_waits", figures->waits);
	put_number(json, "host_waits", figures->host_waits);
	put_number(json, "gpu_wait_us", figures->delay_us);
	put_number(json, "gpu_stall_us", figures->stall_us);
	put_number(json, "ooms", figures->ooms);
	put_number(json, "duration_us", figures->duration_us);
	put_number(json, "planned_allocs", figures->planned);
	put_number(json, "repeated_large_allocs", figures->repeated);
	put_number(json, "moved_large_allocs", figures->moved);
	return json;
}

static json_t *
plan_json_of(const struct plan_found *found)
{
	const struct plan *plan = found->plan;
	json_t *json = json_object();

	put_number(json, "round_requests", plan_round_length(plan));
	put_number(json, "requests_before_round", plan->round);
	put_number(json, "streams", plan->streams);
	put_number(json, "range_bytes", plan->bytes);
	put_number(json, "round_bytes", plan->round_bytes);
	put_number(json, "round_live_bytes", plan->live_bytes);
	put_number(json, "placed_allocs", found->placed);
	return json;
}

json_t *
plan_found_json(
    const char *recording, const char *file, const struct plan_found *found)
{
	json_t *json = json_object();
	bool has_plan = found->plan != NULL;

	put_text_or_null(json, "recording", recording);
	put_text_or_null(json, "written", file);
	put_text_or_null(json, "reason", has_plan ? NULL : found->why);
	put_number(json, "rounds", found->rounds);
	json_object_set_new(
	    json, "plan", has_plan ? plan_json_of(found) : json_null());
	json_object_set_new(json, "with",
	    has_plan ? figures_json_of(&found->with) : json_null());
	json_object_set_new(json, "without",
	    has_plan ? figures_json_of(&found->without) : json_null());
	return json;
}

json_t *
plan_checked_json(
    const char *recording, const char *file, const struct plan_checked *checked)
{
	json_t *json = json_object();

	put_text_or_null(json, "recording", recording);
	put_text_or_null(json, "checked", file);
	json_object_set_new(json, "fits", json_boolean(plan_fits(checked)));
	json_object_set_new(json, "joined", json_boolean(checked->joined));
	put_number(json, "requests", checked->requests);
	put_number(json, "planned", checked->planned);
	put_number(json, "rounds", checked->rounds);
	put_number(json, "others", checked->others);
	put_number_if(
	    json, "first_other", checked->others > 0, checked->first_other);
	put_number_if(json, "first_other_bytes", checked->others > 0,
	    checked->first_other_size);
	put_number_if(
	    json, "dropped_at", checked->dropped_at > 0, checked->dropped_at);
	return json;
}
