/*
 * Reads and writes plans. A file may come from anywhere: nothing in it is
 * believed before plan_verify() has looked at all of it.
 */
#include "snapshot/plan_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/meta.h"
#include "base/out.h"
#include "base/status.h"

enum {
	PLAN_VERSION = 2,
	HEAD_BYTES = 8 + 4 * 4 + 4 * 8,
	ENTRY_BYTES = 8 + 8 + 4,
	SUM_BYTES = 8,
};

static const char plan_magic[8] = { 'w', 'e', 'i', 'r', 'p', 'l', 'a', 'n' };

static size_t
plan_struct_bytes(uint32_t count)
{
	return sizeof(struct plan) + count * sizeof(struct plan_entry);
}

enum weir_status
plan_new(uint32_t count, struct plan **out)
{
	struct plan *plan = meta_zalloc(plan_struct_bytes(count));

	if (plan == NULL)
		return status_set(WEIR_EHOSTMEM, "no host memory for a plan");
	plan->count = count;
	plan->entries = (struct plan_entry *)(plan + 1);
	*out = plan;
	return WEIR_OK;
}

void
plan_free(struct plan *plan)
{
	if (plan != NULL)
		meta_free(plan, plan_struct_bytes(plan->count));
}

/* ---- Verifying --------------------------------------------------------- */

static const char *
fault_of_head(const struct plan *plan)
{
	if (plan->count == 0 || plan->count > PLAN_ENTRIES)
		return "has no requests, or too many";
	if (plan->round >= plan->count)
		return "has no round";
	if (plan->streams == 0 || plan->streams > PLAN_STREAMS)
		return "has no streams, or too many";
	if (plan->bytes == 0 || plan->bytes > PLAN_BYTES ||
	    plan->bytes % PLAN_GRANULE != 0 ||
	    plan->round_bytes % PLAN_GRANULE != 0 || plan->round_bytes == 0 ||
	    plan->round_bytes > plan->bytes ||
	    plan->live_bytes > plan->round_bytes)
		return "has a wrong number of bytes";
	return NULL;
}

static const char *
fault_of_entry(const struct plan *plan, const struct plan_entry *entry)
{
	if (entry->size == 0 || entry->size > PLAN_BYTES ||
	    entry->size % PLAN_GRANULE != 0)
		return "has a request of a wrong size";
	if (entry->stream >= plan->streams)
		return "has a request of an unknown stream";
	if (entry->offset == PLAN_NO_PLACE)
		return NULL;
	bool of_round = entry >= plan->entries + plan->round;
	uint64_t bytes = of_round ? plan->round_bytes : plan->bytes;
	if (entry->offset % PLAN_GRANULE != 0 || entry->size > bytes ||
	    entry->offset > bytes - entry->size)
		return "has a place outside its range";
	return NULL;
}

static const char *
fault_of_plan(const struct plan *plan)
{
	const char *fault = fault_of_head(plan);

	for (uint32_t i = 0; fault == NULL && i < plan->count; i++)
		fault = fault_of_entry(plan, &plan->entries[i]);
	return fault;
}

enum weir_status
plan_verify(const struct plan *plan)
{
	const char *fault = fault_of_plan(plan);

	return fault == NULL ? WEIR_OK :
			       status_set(WEIR_EINVAL, "the plan %s", fault);
}

/* ---- Numbers ----------------------------------------------------------- */

static void
put_bytes(uint8_t **at, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		*(*at)++ = (uint8_t)(value >> 8 * i);
}

static uint64_t
get_bytes(const uint8_t **at, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t) * (*at)++ << 8 * i;
	return value;
}

/* FNV-1a, of 64 bits. It finds damage, and is no protection. */
static uint64_t
sum_of(const uint8_t *bytes, size_t size)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < size; i++)
		sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
	return sum;
}

/* ---- Writing ----------------------------------------------------------- */

static void
encode(const struct plan *plan, uint8_t *bytes, size_t size)
{
	uint8_t *at = bytes + sizeof(plan_magic);

	memcpy(bytes, plan_magic, sizeof(plan_magic));
	put_bytes(&at, PLAN_VERSION, 4);
	put_bytes(&at, plan->count, 4);
	put_bytes(&at, plan->round, 4);
	put_bytes(&at, plan->streams, 4);
	put_bytes(&at, plan->bytes, 8);
	put_bytes(&at, plan->round_bytes, 8);
	put_bytes(&at, plan->live_bytes, 8);
	put_bytes(&at, plan->held_bytes, 8);
	for (uint32_t i = 0; i < plan->count; i++) {
		put_bytes(&at, plan->entries[i].size, 8);
		put_bytes(&at, plan->entries[i].offset, 8);
		put_bytes(&at, plan->entries[i].stream, 4);
	}
	put_bytes(&at, sum_of(bytes, size - SUM_BYTES), SUM_BYTES);
}

static size_t
file_bytes(uint32_t count)
{
	return HEAD_BYTES + (size_t)count * ENTRY_BYTES + SUM_BYTES;
}

enum weir_status
plan_write(const struct plan *plan, const char *path)
{
	enum weir_status status = plan_verify(plan);
	struct out *out;

	if (status != WEIR_OK)
		return status;
	size_t size = file_bytes(plan->count);
	uint8_t *bytes = meta_alloc(size);
	if (bytes == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory to write a plan");
	encode(plan, bytes, size);
	status = out_open(path, &out);
	if (status == WEIR_OK) {
		out_bytes(out, bytes, size);
		status = out_close(out);
	}
	meta_free(bytes, size);
	return status;
}

/* ---- Reading ----------------------------------------------------------- */

static enum weir_status
refuse(const char *name, const char *fault)
{
	return status_set(WEIR_EINVAL, "%s: %s", name, fault);
}

/* Names what is wrong with the file as such. NULL: nothing. */
static const char *
fault_of_file(const uint8_t *bytes, size_t size)
{
	const uint8_t *at = bytes + sizeof(plan_magic);

	if (size < HEAD_BYTES + SUM_BYTES ||
	    memcmp(bytes, plan_magic, sizeof(plan_magic)) != 0)
		return "this is no plan";
	if (get_bytes(&at, 4) != PLAN_VERSION)
		return "this is a plan of another version of weir";
	uint64_t count = get_bytes(&at, 4);
	if (count > PLAN_ENTRIES || file_bytes((uint32_t)count) != size)
		return "this plan is damaged: it has another size";
	at = bytes + size - SUM_BYTES;
	if (get_bytes(&at, SUM_BYTES) != sum_of(bytes, size - SUM_BYTES))
		return "this plan is damaged: its checksum differs";
	return NULL;
}

static void
decode_entries(struct plan *plan, const uint8_t *at)
{
	for (uint32_t i = 0; i < plan->count; i++) {
		struct plan_entry *entry = &plan->entries[i];

		entry->size = get_bytes(&at, 8);
		entry->offset = get_bytes(&at, 8);
		entry->stream = (uint32_t)get_bytes(&at, 4);
	}
}

enum weir_status
plan_decode(
    const char *name, const uint8_t *bytes, size_t size, struct plan **out)
{
	const char *fault = fault_of_file(bytes, size);
	const uint8_t *at = bytes + sizeof(plan_magic) + 4;
	struct plan *plan = NULL;

	if (fault != NULL)
		return refuse(name, fault);
	enum weir_status status = plan_new((uint32_t)get_bytes(&at, 4), &plan);
	if (status != WEIR_OK)
		return status;
	plan->round = (uint32_t)get_bytes(&at, 4);
	plan->streams = (uint32_t)get_bytes(&at, 4);
	plan->bytes = get_bytes(&at, 8);
	plan->round_bytes = get_bytes(&at, 8);
	plan->live_bytes = get_bytes(&at, 8);
	plan->held_bytes = get_bytes(&at, 8);
	decode_entries(plan, at);
	fault = fault_of_plan(plan);
	if (fault != NULL) {
		plan_free(plan);
		return status_set(WEIR_EINVAL, "%s: the plan %s", name, fault);
	}
	*out = plan;
	return WEIR_OK;
}

/* Read up to `most` bytes. False, and errno, on failure. */
static bool
read_some(int fd, uint8_t *bytes, size_t most, size_t *size)
{
	*size = 0;
	while (*size < most) {
		ssize_t n = read(fd, bytes + *size, most - *size);

		if (n == 0)
			return true;
		if (n < 0 && errno != EINTR)
			return false;
		*size += n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* The room for a file: its size and a byte more, as far as a plan can be so
 * large. A longer file then has another size than its header says. */
static size_t
room_for(int fd)
{
	struct stat about;
	size_t most = file_bytes(PLAN_ENTRIES) + 1;

	if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
		return 0;
	return (uint64_t)about.st_size < most ? (size_t)about.st_size + 1 :
						most;
}

static enum weir_status
read_from(int fd, const char *path, struct plan **out)
{
	size_t room = room_for(fd);
	size_t size;

	if (room == 0)
		return refuse(path, "a plan is a file");
	uint8_t *bytes = meta_alloc(room);
	if (bytes == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory to read %s", path);
	enum weir_status status = read_some(fd, bytes, room, &size) ?
	    plan_decode(path, bytes, size, out) :
	    status_set(WEIR_EINVAL, "%s: %s", path, strerror(errno));
	meta_free(bytes, room);
	return status;
}

enum weir_status
plan_read(const char *path, struct plan **out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return status_set(WEIR_EINVAL, "%s: %s", path, strerror(errno));
	enum weir_status status = read_from(fd, path, out);
	close(fd);
	return status;
}
