/*
 * This process as a member of groups, one for each device (ledger.h).
 *
 * Before memory of a device is asked for, its bytes are covered by a lease; the
 * lease is lowered when they have left. That happens in totals.h, where the
 * limit of the device is heeded, too, so it costs the cached paths nothing. A
 * process without a group, and one whose ledger is damaged, full or removed,
 * has leases of any size: it goes on with its own limit, and says so once.
 */
#ifndef ALLOCATOR_SHARE_MEMBER_H
#define ALLOCATOR_SHARE_MEMBER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/options.h"
#include "allocator/share/ledger_file.h"

/* Join the group that the options name, or with `lend` that of all who lend.
 * Failures are logged. Later calls for the device do nothing. */
void member_begin(int device, const struct options *options);

/* Cover `held` bytes of a device by the lease. Returns 0, or the bytes that are
 * missing in the group; the lease is then as before. For one thread at a time,
 * as member_settle(). */
size_t member_lease(int device, size_t held);

/* Lower the lease to `held` bytes, if it is larger. */
void member_settle(int device, size_t held);

/* From hold to let, leases are not lowered: memory changes its place, and seems
 * to be gone for a moment. */
void member_hold(int device);
void member_let(int device);

/* Say to the group whether the device sleeps. For one thread at a time. */
void member_set_state(int device, enum ledger_state state);

/* The ledger of a device; NULL if this process has no group there. */
struct ledger_file *member_file(int device);

/* The bytes that were missing in the latest refusal; 0: none since the latest
 * call. */
size_t member_take_missing(int device);

/* Has the group more room now than before the latest refusal? */
bool member_has_more_room(int device);

/* A member of a group, as it was a moment ago. */
struct member {
	unsigned slot;
	uint64_t pid; /* in its PID namespace */
	bool own;     /* it is this process */
	uint64_t lease_bytes;
	uint64_t guarantee_bytes;
	uint64_t idle_bytes;
	uint64_t want_bytes; /* that it waits for; 0: it does not wait */
	uint64_t waits_ns;   /* for how long */
	uint64_t priority;
	char program[LEDGER_PROGRAM];
};

/* List the members of a ledger, alive or not, with the latest values of each.
 * Returns their number. */
unsigned member_list(
    const struct ledger_file *file, struct member members[LEDGER_MEMBERS]);

#endif
