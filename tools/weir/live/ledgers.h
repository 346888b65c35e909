/*
 * The ledgers of groups, for commands that look at them from outside.
 *
 * A ledger is read while its members change it, so what it says was true a
 * moment ago. In a folder for several users, each of them can write anything
 * into it at any time. So the name of a group is taken from the file's name,
 * which is checked once, and the number of a process is not believed before the
 * process itself has said that it is a member.
 */
#ifndef TOOLS_WEIR_LIVE_LEDGERS_H
#define TOOLS_WEIR_LIVE_LEDGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "allocator/share/ledger_file.h"

/* Characters of a device's UUID, with the NUL. */
enum { LEDGERS_UUID = 40 };

/* A ledger that is open, in a list in the order of groups and devices. */
struct found_ledger {
	struct found_ledger *next;
	char group[LEDGER_GROUP];
	char uuid[LEDGERS_UUID];
	bool several; /* users can write to it */
	struct ledger_file file;
};

/*
 * Open all ledgers, or those of a group, without slots of members that have
 * died. A ledger that cannot be used is left out, with a complaint.
 *
 * @param folder  of the ledgers; NULL: the default one
 * @param group   NULL: all groups
 * @param left_out  receives whether a ledger was left out; NULL: not wanted
 * @return false, with a complaint, if the folder cannot be read
 */
bool ledgers_open(const char *folder, const char *group,
    struct found_ledger **list, bool *left_out);
void ledgers_close(struct found_ledger *list);

/* Ring the members, so that they count their idle memory, and wait a moment for
 * them. */
void ledgers_ring(const struct found_ledger *list);

/* The program of a slot, with the NUL that the ledger may lack. */
void ledgers_program(
    const struct ledger_slot *slot, char program[LEDGER_PROGRAM]);

/* Nanoseconds for which a member has been waiting for memory. 0: it does not
 * wait. */
uint64_t ledgers_wait_ns(const struct ledger_slot *slot);

/* The state of a member's device: "awake", "dozing" or "asleep"; "unknown" if
 * the ledger says nothing that it can. */
const char *ledgers_state(const struct ledger_slot *slot);

/* A process, which has a slot in one ledger or more. */
struct group_member {
	pid_t pid;
	char program[LEDGER_PROGRAM];
	uint64_t priority; /* the highest of its slots */
	uint64_t ledgers;  /* bit i % 64: it has a slot in ledger i */
	bool several;      /* users could have written its number */
	bool foreign;      /* the number is of another PID namespace */
};

/*
 * The members of all ledgers of a list, the highest priority first.
 *
 * @param members  the caller frees it
 * @return false without memory
 */
bool ledgers_members(const struct found_ledger *list,
    struct group_member **members, size_t *count);

#endif
