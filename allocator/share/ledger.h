/*
 * The ledger of a group: what each process of the group may hold of a device.
 *
 * Note [Ledger]
 *
 * A ledger has a limit and a slot for each member. A slot's *lease* is the
 * bytes that its member holds or is about to ask the driver for; its
 * *guarantee* is what the member can always have. The *charge* of a slot is the
 * larger of the two. The rule of a ledger is:
 *
 *	the sum of all charges is at most the limit
 *
 * Therefore a lease within its guarantee needs no permission: it leaves the
 * charge as it is, and is always granted. A lease beyond the guarantee is
 * granted out of what no member holds and no guarantee reserves.
 *
 * Members change the ledger without a lock, and may be killed or stopped at
 * each step. There is no word that all of them count in, which a death could
 * leave wrong; the sum is taken over the slots each time. Two members that
 * grow at once follow Dekker's rule: each first writes its *claim*, the lease
 * that it wants, into its own slot, and only then looks at the slots of the
 * others, where claims count as charges. Whoever looks later sees the claim or
 * the lease of the other. If both see a claim, both may withdraw, and try again
 * (lease_claim() in member.c). A change of a guarantee, or of the limit, writes
 * a *wish* first in the same way. One process at a time makes such changes.
 *
 * A look at a slot reads the wish before the guarantee, and the claim before
 * the lease, because the writer stores the new value before it clears the wish
 * or claim; and it reads the guarantee before the claim, because a member that
 * found its claim within the guarantee needs no look, even if the guarantee is
 * lowered after that. tests/allocator/share/model_test.c explores all orders of
 * these steps, with deaths.
 *
 * The slot of a member that has died is emptied by any other process, once the
 * member's memory is gone (ledger_file.h).
 *
 * A member that finds no memory waits in a queue: `since_ns` is when it began
 * to wait and `want` how many bytes it lacks. What older members wait for is
 * not granted to younger ones beyond their guarantees.
 */
#ifndef ALLOCATOR_SHARE_LEDGER_H
#define ALLOCATOR_SHARE_LEDGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "allocator/share/tuning.h"

enum { LEDGER_GROUP = 48, LEDGER_PROGRAM = 16, LEDGER_UUID = 16 };

/* No value of a ledger is larger, in bytes; others come from a fault. */
#define LEDGER_BYTES_MAX (UINT64_C(1) << 56)

/* Does a member's device sleep? */
enum ledger_state {
	LEDGER_AWAKE,
	LEDGER_DOZES,  /* for others; it wakes by itself */
	LEDGER_ASLEEP, /* until the user wakes it */
	LEDGER_STATES
};

struct ledger_slot {
	/* Bytes: see above. */
	_Atomic(uint64_t) lease;
	_Atomic(uint64_t) claim;
	_Atomic(uint64_t) guarantee;
	_Atomic(uint64_t) wish;
	/* The queue. */
	_Atomic(uint64_t) want;     /* bytes */
	_Atomic(uint64_t) since_ns; /* CLOCK_MONOTONIC; 0: does not wait */
	/* Lending: lend/lender.h. */
	_Atomic(uint64_t) asked; /* bytes that others want of it */
	_Atomic(uint64_t) given; /* bytes that it has given back so far */
	_Atomic(uint64_t) idle;  /* bytes that no work uses, as last counted */
	_Atomic(uint32_t) bell;  /* a futex: rung after `asked` is raised */
	_Atomic(uint32_t) answered; /* a futex: the bell that was answered */
	/* Dozing: lend/lender.c. CLOCK_MONOTONIC. */
	_Atomic(uint64_t) doze_until_ns; /* until when a sleep may begin that
					    others want; 0: none is wanted */
	_Atomic(uint64_t) used_ns; /* when its use was last seen; 0: it never
				      dozes */
	_Atomic(uint32_t) dozing;  /* it is falling asleep for others */
	_Atomic(uint32_t) state;   /* enum ledger_state */
	/* The member. 0 in `pid`: nobody has used the slot since it was
	 * emptied. */
	_Atomic(uint64_t) pid;
	_Atomic(uint64_t) started;   /* field 22 of /proc/PID/stat */
	_Atomic(uint64_t) pid_space; /* of its PID namespace */
	_Atomic(uint64_t) died_ns;   /* when its death was first seen; or 0 */
	_Atomic(uint64_t) priority;
	char program[LEDGER_PROGRAM];
};

struct ledger {
	char magic[8];
	uint32_t version;
	uint32_t slot_count;
	unsigned char uuid[LEDGER_UUID]; /* of the device */
	uint64_t total_bytes;            /* of the device */
	char group[LEDGER_GROUP];
	_Atomic(uint64_t) limit;      /* bytes */
	_Atomic(uint64_t) limit_wish; /* 0: none */
	_Atomic(uint32_t) turn;       /* a futex: rung when a charge falls */
	_Atomic(uint32_t) waiting;    /* members that wait for it */
	struct ledger_slot slots[LEDGER_MEMBERS];
};

/* ---- Steps -------------------------------------------------------------- */

enum ledger_change {
	LEDGER_TAKE,      /* raise the lease of slot `self` to `amount` */
	LEDGER_GIVE,      /* lower it to that */
	LEDGER_GUARANTEE, /* set the guarantee of slot `self` */
	LEDGER_LIMIT,     /* set the limit, above 0 */
	LEDGER_EMPTY,     /* empty slot `self`, whose member has died */
};

enum ledger_result {
	LEDGER_GOING,
	LEDGER_DONE,
	LEDGER_REFUSED, /* nothing has changed */
	LEDGER_CORRUPT, /* nothing has changed; a value cannot be right */
};

/* A change under way. */
struct ledger_op {
	struct ledger *ledger;
	unsigned count; /* slots that are looked at */
	unsigned self;
	enum ledger_change change;
	uint64_t amount;
	/* Results. */
	bool met;         /* with a claim or wish of another */
	uint64_t missing; /* bytes, if it is refused */
	/* Used by ledger_step(). */
	int state;
	unsigned slot;
	unsigned cell;
	uint64_t limit;
	uint64_t sum;
	uint64_t charge; /* of `slot`, as read so far */
	uint64_t firm;   /* its charge without claim and wish */
	uint64_t since;
	uint64_t older; /* bytes that older members wait for */
	uint64_t own_since;
	bool corrupt;
};

/* Begin a change. TAKE and GIVE are for the member of the slot, one at a time;
 * GUARANTEE and LIMIT for the holder of the setter's lock; EMPTY for the holder
 * of the slot's. */
void ledger_op_begin(struct ledger_op *op, struct ledger *ledger,
    enum ledger_change change, unsigned self, uint64_t amount);

/* Make one step of it, with at most one access to the ledger. */
enum ledger_result ledger_step(struct ledger_op *op);

/* Make all steps. */
enum ledger_result ledger_run(struct ledger_op *op);

/* ---- Looking at it ------------------------------------------------------ */

/* The sum of all charges: leases, guarantees, claims and wishes. */
uint64_t ledger_charged(const struct ledger *ledger);

/* The fault of a ledger that nobody is changing, as text; NULL: none. */
const char *ledger_fault(const struct ledger *ledger);

#endif
