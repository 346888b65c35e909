/*
 * The arrays of a snapshot, which are created, grown and freed through one
 * table.
 */
#include "snapshot/model.h"

#include <string.h>

#include "base/meta.h"
#include "base/status.h"

#define ARRAY(field)                                                           \
	{                                                                      \
		offsetof(struct snapshot, field),                              \
		    sizeof(*((struct snapshot *)0)->field)                     \
	}

/* Indexed by enum snapshot_array: the offset of an array's pointer, and the
 * size of its entries. The fields of events come last, in order. */
static const struct {
	size_t offset;
	size_t entry;
} arrays[SNAPSHOT_ARRAYS] = {
	[SNAPSHOT_ARRAY_SEGMENTS] = ARRAY(segments),
	[SNAPSHOT_ARRAY_BLOCKS] = ARRAY(blocks),
	[SNAPSHOT_ARRAY_TRACES] = ARRAY(traces),
	[SNAPSHOT_ARRAY_ANNOTATIONS] = ARRAY(annotations),
	[SNAPSHOT_ARRAY_FRAMES] = ARRAY(frames),
	[SNAPSHOT_ARRAY_STACKS] = ARRAY(stacks),
	[SNAPSHOT_ARRAY_STACK_FRAMES] = ARRAY(stack_frames),
	[SNAPSHOT_ARRAY_POOLS] = ARRAY(pools),
	[SNAPSHOT_ARRAY_SETTINGS] = ARRAY(settings),
	[SNAPSHOT_ARRAY_STRINGS] = ARRAY(strings),
	[SNAPSHOT_ARRAY_TEXT] = ARRAY(text),
	[SNAPSHOT_ARRAY_EVENTS] = ARRAY(events.address),
	ARRAY(events.bytes),
	ARRAY(events.stream),
	ARRAY(events.time_us),
	ARRAY(events.stack),
	ARRAY(events.pool),
	ARRAY(events.context),
	ARRAY(events.metadata),
	ARRAY(events.served_by),
	ARRAY(events.device),
	ARRAY(events.action),
};

static void **
array_pointer(struct snapshot *snapshot, size_t array)
{
	return (void **)((char *)snapshot + arrays[array].offset);
}

static enum weir_status
grow(struct snapshot *snapshot, size_t array, uint64_t count, uint64_t need)
{
	size_t entry = arrays[array].entry;
	size_t room = snapshot->room[array];
	void **items = array_pointer(snapshot, array);
	size_t wanted = room + room / 2 > need ? room + room / 2 : need + 16;
	void *moved = meta_alloc(wanted * entry);

	if (moved == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "no host memory for %zu bytes of a snapshot",
		    wanted * entry);
	if (count > 0)
		memcpy(moved, *items, count * entry);
	meta_free(*items, room * entry);
	*items = moved;
	snapshot->room[array] = wanted;
	return WEIR_OK;
}

enum weir_status
snapshot_reserve(struct snapshot *snapshot, enum snapshot_array array,
    uint64_t count, uint64_t more)
{
	size_t last = array == SNAPSHOT_ARRAY_EVENTS ? SNAPSHOT_ARRAYS - 1 :
						       (size_t)array;

	if (array != SNAPSHOT_ARRAY_TEXT && more >= UINT32_MAX - count)
		return status_set(WEIR_EINVAL,
		    "more than 4294967294 entries of one kind in a snapshot");
	for (size_t i = array; i <= last; i++) {
		enum weir_status status;

		if (snapshot->room[i] >= count + more)
			continue;
		status = grow(snapshot, i, count, count + more);
		if (status != WEIR_OK)
			return status;
	}
	return WEIR_OK;
}

struct snapshot *
snapshot_new(void)
{
	struct snapshot *snapshot = meta_zalloc(sizeof(*snapshot));

	for (size_t i = 0; i < SNAPSHOT_ARRAYS && snapshot != NULL; i++)
		if (grow(snapshot, i, 0, 1) != WEIR_OK) {
			snapshot_free(snapshot);
			snapshot = NULL;
		}
	return snapshot;
}

struct snapshot
snapshot_host(const struct snapshot *snapshot)
{
	struct snapshot host = *snapshot;

	host.segments += snapshot->segment_count;
	host.segment_count = snapshot->host_count;
	host.host_count = 0;
	host.trace_count = 0;
	host.events.count = 0;
	host.annotation_count = 0;
	return host;
}

void
snapshot_free(struct snapshot *snapshot)
{
	if (snapshot == NULL)
		return;
	for (size_t i = 0; i < SNAPSHOT_ARRAYS; i++)
		meta_free(*array_pointer(snapshot, i),
		    snapshot->room[i] * arrays[i].entry);
	meta_free(snapshot, sizeof(*snapshot));
}

const char *
snapshot_state_name(enum snapshot_state state)
{
	static const char *const names[SNAPSHOT_STATES] = {
		[SNAPSHOT_INACTIVE] = "inactive",
		[SNAPSHOT_ACTIVE] = "active_allocated",
		[SNAPSHOT_PENDING] = "active_pending_free",
	};

	return names[state];
}

uint32_t
snapshot_device_count(const struct snapshot *snapshot)
{
	uint32_t count = snapshot->trace_count;

	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		if (snapshot->segments[i].device >= count)
			count = snapshot->segments[i].device + 1;
	return count;
}
