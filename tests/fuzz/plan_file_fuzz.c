/*
 * Arbitrary bytes as the file of a plan: refused with a reason, or a plan that
 * is consistent, that is written as the bytes that were read, and that a
 * program can follow. The first byte says whether the checksum is made right,
 * because no other change of a file comes as far as the values; the second one
 * says where the program departs from the plan.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/meta.h"
#include "snapshot/plan_file.h"
#include "snapshot/plan_follow.h"
#include "tests/fuzz/fuzz.h"

enum {
	CHOICES = 2,        /* bytes before the file */
	SUM = 8,            /* bytes of the checksum */
	FOLLOWED = 4096,    /* requests at most */
	FILE_MAX = 1 << 16, /* bytes; libFuzzer's inputs are shorter */
};

static void
set_sum(uint8_t *bytes, size_t size)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < size - SUM; i++)
		sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
	for (unsigned i = 0; i < SUM; i++)
		bytes[size - SUM + i] = (uint8_t)(sum >> 8 * i);
}

/* Make the requests of the plan, but for each `departs`th. */
static void
follow_all(const struct plan *plan, unsigned departs)
{
	struct plan_follow follow;
	uint32_t next = 0;

	plan_follow_begin(&follow, plan);
	for (unsigned n = 1; n <= FOLLOWED && !follow.ended; n++) {
		const struct plan_entry *wanted = &plan->entries[next];
		bool other = departs > 0 && n % departs == 0;
		const struct plan_entry *entry = plan_follow(&follow,
		    wanted->stream, wanted->size + (other ? PLAN_GRANULE : 0));

		fuzz_expect(entry == NULL ||
			(entry >= plan->entries &&
			    entry < plan->entries + plan->count &&
			    entry->size ==
				wanted->size + (other ? PLAN_GRANULE : 0)),
		    "an entry of another request");
		next = next + 1 < plan->count ? next + 1 : plan->round;
	}
	fuzz_expect(departs > 0 || (!follow.ended && follow.others == 0),
	    "a program that is as planned has left its plan");
}

/* A file of the process's own in a folder of its own, because files are
 * written beside their name and renamed. */
static char folder[] = "/tmp/weir-fuzz-XXXXXX";
static char path[sizeof(folder) + sizeof("/plan")];

static void
remove_folder(void)
{
	rmdir(folder);
}

static void
make_folder(void)
{
	if (path[0] != '\0')
		return;
	fuzz_expect(mkdtemp(folder) != NULL, "no folder");
	snprintf(path, sizeof(path), "%s/plan", folder);
	atexit(remove_folder);
}

/* A plan is written as the bytes that it was read from. */
static void
expect_same_file(const struct plan *plan, const uint8_t *bytes, size_t size)
{
	static uint8_t written[FILE_MAX];
	FILE *file;

	make_folder();
	fuzz_expect(plan_write(plan, path) == WEIR_OK, "it is not written");
	file = fopen(path, "rb");
	fuzz_expect(file != NULL, "it is not there");
	fuzz_expect(fread(written, 1, sizeof(written), file) == size &&
		memcmp(written, bytes, size) == 0,
	    "it is written as other bytes");
	fclose(file);
	unlink(path);
}

static void
read_file(const uint8_t *bytes, size_t size, unsigned departs)
{
	struct plan *plan = NULL;
	enum weir_status status = plan_decode("it", bytes, size, &plan);

	if (status != WEIR_OK) {
		fuzz_expect(status == WEIR_EINVAL && plan == NULL &&
			strncmp(weir_last_error(), "it: ", 4) == 0,
		    "there is no reason");
		return;
	}
	fuzz_expect(plan_verify(plan) == WEIR_OK, "it is not consistent");
	fuzz_expect(
	    plan->count * sizeof(struct plan_entry) < 2 * size, "its memory");
	follow_all(plan, departs);
	expect_same_file(plan, bytes, size);
	plan_free(plan);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bytes[FILE_MAX];
	size_t before = meta_bytes();

	if (size < CHOICES || size - CHOICES > sizeof(bytes))
		return 0;
	memcpy(bytes, data + CHOICES, size - CHOICES);
	if ((data[0] & 1) != 0 && size - CHOICES > SUM)
		set_sum(bytes, size - CHOICES);
	read_file(bytes, size - CHOICES, data[1]);
	fuzz_expect(meta_bytes() == before, "memory is left");
	return 0;
}
