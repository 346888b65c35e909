/*
 * Arbitrary text in a snapshot of weir: written as a pickle and as JSON, it
 * reads back as the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/trace.h>

#include "allocator/observe/snapshot.h"
#include "tests/fuzz/fuzz.h"
#include "tools/weir/reading/snapshot_file.h"

static struct snapshot *
written(enum weir_snapshot_format format)
{
	struct snapshot *snapshot = NULL;
	struct source source;
	int file = memfd_create("snapshot", MFD_CLOEXEC);
	off_t size;
	void *bytes;

	fuzz_expect(snapshot_onto(file, format) == WEIR_OK, "snapshot_onto");
	size = lseek(file, 0, SEEK_END);
	bytes = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, file, 0);
	fuzz_expect(size > 0 && bytes != MAP_FAILED, "an empty snapshot");
	source_of_memory(&source, bytes, (size_t)size);
	fuzz_expect(
	    snapshot_read(&source, &snapshot) == WEIR_OK, "it is not read");
	munmap(bytes, (size_t)size);
	close(file);
	return snapshot;
}

/* The text of the last event. */
static const char *
last_text(const struct snapshot *snapshot)
{
	uint32_t n = snapshot->events.count;

	fuzz_expect(n > 0, "there is no event");
	return snapshot_text(snapshot, snapshot->events.metadata[n - 1]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct weir_history history = { .struct_size = sizeof(history),
		.level = WEIR_HISTORY_NONE,
		.max_entries = 4 };
	static unsigned rounds;
	char *text;

	/* Texts are never freed; their table is bounded. */
	if (++rounds > 50000)
		return 0;
	fuzz_device();
	if (rounds == 1)
		weir_history_start(&history);
	text = fuzz_text(data, size < 4096 ? size : 4096);
	weir_metadata_set(text);
	weir_free(weir_malloc(512, NULL));
	struct snapshot *pickle = written(WEIR_SNAPSHOT_PICKLE);
	struct snapshot *json = written(WEIR_SNAPSHOT_JSON);
	fuzz_expect(pickle->events.count == json->events.count, "events");
	fuzz_expect(strcmp(last_text(pickle), last_text(json)) == 0,
	    "the two forms differ");
	snapshot_free(pickle);
	snapshot_free(json);
	free(text);
	return 0;
}
