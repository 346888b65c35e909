/*
 * Arbitrary bytes as a snapshot of any form. A snapshot that can be read is
 * printed in every form: nothing crashes, and its JSON is read again.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/weir/reading/snapshot_file.h"
#include "tools/weir/reading/snapshot_holders.h"
#include "tools/weir/reading/snapshot_out.h"
#include "tools/weir/reading/snapshot_view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Its JSON is a snapshot with the same numbers of segments and events. */
static void
read_again(const struct snapshot *snapshot)
{
	struct snapshot_part part = { .snapshot = snapshot };
	struct snapshot *again = NULL;
	struct source source;
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	if (out == NULL)
		return;
	snapshot_out_json(&part, 1, out);
	fclose(out);
	source_of_memory(&source, text, length);
	if (snapshot_read(&source, &again) != WEIR_OK) {
		fprintf(stderr, "%s\n%s\n", weir_last_error(), text);
		abort();
	}
	if (again->segment_count != snapshot->segment_count ||
	    again->events.count != snapshot->events.count ||
	    sums_of(again, VIEW_ALL_DEVICES).allocated !=
		sums_of(snapshot, VIEW_ALL_DEVICES).allocated)
		abort();
	snapshot_free(again);
	free(text);
}

static void
write_all(const struct snapshot *snapshot)
{
	static FILE *nowhere;
	struct holders holders;
	uint32_t device = snapshot_traced_device(snapshot, 0);

	if (nowhere == NULL)
		nowhere = fopen("/dev/null", "w");
	if (nowhere == NULL)
		abort();
	snapshot_out_chrome(snapshot, NULL, nowhere);
	snapshot_out_folded(snapshot, nowhere);
	if (device != UINT32_MAX)
		snapshot_out_csv(snapshot, device, "fuzz", nowhere);
	if (holders_find(snapshot, VIEW_ALL_DEVICES, &holders))
		holders_drop(&holders);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct snapshot *snapshot = NULL;
	struct source source;

	source_of_memory(&source, data, size);
	if (snapshot_read(&source, &snapshot) == WEIR_OK) {
		read_again(snapshot);
		write_all(snapshot);
		snapshot_free(snapshot);
	} else if (weir_last_error()[0] == '\0') {
		abort();
	}
	return 0;
}
