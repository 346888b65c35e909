#include "tools/weir/advise/advise_page.h"

#include <inttypes.h>
#include <string.h>

#include "tools/weir/advise/advise_find.h"
#include "tools/weir/advise/tuning.h"
#include "tools/weir/reading/snapshot_out.h"
#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/tool.h"

static json_t *
without_answer(uint32_t device, const char *reason)
{
	json_t *one = json_object();

	put_number(one, "device", device);
	json_object_set_new(one, "reason", json_of_text(reason));
	return one;
}

static json_t *
answer_for(const struct snapshot *snapshot, const char *path, uint32_t device,
    bool *whole)
{
	const struct advise_request request = {
		.snapshot = snapshot,
		.device = device,
		.path = path,
		.limit = UINT64_MAX,
		.seconds = ADVISE_SECONDS,
	};
	struct advice advice;
	json_t *one;

	if (!advise_find(&request, &advice)) {
		*whole &= advice.unplayable;
		one =
		    without_answer(device, "the recording cannot be replayed");
	} else if (advice.empty) {
		one = without_answer(device, "the history has no request");
	} else {
		one = advice_json(&advice);
		put_number(one, "device", device);
		json_object_set(one, "serves", advice.serves);
		json_object_set_new(one, "reason", json_null());
	}
	advice_drop(&advice);
	return one;
}

json_t *
advise_page(
    const struct snapshot *snapshot, const char *path, bool asked, bool *whole)
{
	json_t *list = json_array();
	char reason[2 * VIEW_TEXT];
	char number[VIEW_TEXT];

	for (uint32_t d = snapshot_traced_device(snapshot, 0); d != UINT32_MAX;
	     d = snapshot_traced_device(snapshot, d + 1)) {
		uint32_t events = snapshot->traces[d].count;

		if (strcmp(path, "-") == 0) {
			json_array_append_new(list,
			    without_answer(d,
				"replays read a file several times, and this "
				"one came from stdin"));
			continue;
		}
		if (asked || events <= ADVISE_PAGE_EVENTS) {
			json_array_append_new(
			    list, answer_for(snapshot, path, d, whole));
			continue;
		}
		snprintf(reason, sizeof(reason),
		    "the recording has %s events, whose replays take long; "
		    "`weir view --advise` does them, and so does `weir advise`",
		    count_text(events, number));
		json_array_append_new(list, without_answer(d, reason));
	}
	return list;
}

json_t *
advise_page_without(const struct snapshot *snapshot, const char *reason)
{
	json_t *list = json_array();

	for (uint32_t d = snapshot_traced_device(snapshot, 0); d != UINT32_MAX;
	     d = snapshot_traced_device(snapshot, d + 1))
		json_array_append_new(list, without_answer(d, reason));
	return list;
}
