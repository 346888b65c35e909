/*
 * The files of ledgers, and the lives of the processes that use them.
 *
 * A ledger is a file GROUP.UUID.ledger, one for each group and device, in a
 * folder: the one that the user names, or $XDG_RUNTIME_DIR/weir, or
 * /dev/shm/weir-UID. The folder must belong to this user and be closed to
 * others, unless the user names it. A named folder may also be one for several
 * users: it belongs to anybody, others may write to it, and it has the sticky
 * bit, as /tmp has. The ledgers in it then are open to the same users as the
 * folder, who can spoil each other's ledgers.
 *
 * A file is checked before it is mapped: a plain file with one name, of this
 * user or in a folder for several, closed to others, of the size of a ledger,
 * with the right magic, version, group and device.
 *
 * A member holds a lock on the byte of the file that stands for its slot. The
 * kernel drops the lock when the member ends, in whatever way. The lock belongs
 * to the open file that the ledger is mapped from, and no descriptor of that
 * file stays open: a program that closes all descriptors does not lose it, and
 * a forked child does not inherit it, because the mapping is not inherited.
 * Another descriptor, opened with O_PATH, finds the file again for further
 * locks.
 */
#ifndef ALLOCATOR_SHARE_LEDGER_FILE_H
#define ALLOCATOR_SHARE_LEDGER_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <weir/weir.h>

#include "allocator/share/ledger.h"

/* Characters of a path that the calls below write. */
enum { LEDGER_PATH = 1100 };

struct ledger_folder {
	int fd;
	bool several;           /* for several users */
	mode_t mode;            /* of its ledgers */
	char path[LEDGER_PATH]; /* for messages */
};

struct ledger_file {
	struct ledger *ledger; /* mapped */
	int fd;                /* O_PATH */
	dev_t device;
	ino_t number;
	int slot; /* that this process has; -1: none */
};

/* This process's slot, in a ledger that it has joined. */
static inline struct ledger_slot *
ledger_own_slot(const struct ledger_file *file)
{
	return &file->ledger->slots[file->slot];
}

/* The device of a ledger. */
struct ledger_device {
	unsigned char uuid[LEDGER_UUID];
	uint64_t total_bytes;
};

/* The rule for the name of a group, for messages. */
#define LEDGER_NAME_RULE                                                       \
	"a name has 1 to 47 letters, digits, '-', '_' and '.', and begins "    \
	"with no '.'"

/* Is this a name of a group, by the rule? */
bool ledger_is_name(const char *group);

/*
 * Open the folder of ledgers.
 *
 * @param given  the folder that the user names, or ""
 * @param make   make it, if it is not named
 * @return WEIR_OK; WEIR_ENOTSUP, without a message, if it does not exist and
 *         `make` is false; WEIR_EINVAL if it cannot be used
 */
enum weir_status ledger_folder_open(
    const char *given, bool make, struct ledger_folder *out);

/*
 * Open the ledger of a group and device, and make it if `limit` is not 0.
 *
 * @param limit  bytes, of a new ledger
 * @return WEIR_OK; WEIR_EINVAL, with the reason, if it cannot be used
 */
enum weir_status ledger_file_open(const struct ledger_folder *folder,
    const char *group, const struct ledger_device *device, uint64_t limit,
    struct ledger_file *out);

/* Open the ledger in a file of the folder, to look at it. WEIR_ENOTSUP, without
 * a message, if the name is not that of a ledger. */
enum weir_status ledger_file_named(const struct ledger_folder *folder,
    const char *name, struct ledger_file *out);

/* Take a slot for this process. WEIR_EINVAL if all slots are taken. */
enum weir_status ledger_join(struct ledger_file *file);

/* Unmap and close it, which ends a membership. */
void ledger_file_close(struct ledger_file *file);

/* Returns why the file cannot be used any more, as text: it was removed or
 * changed by others. NULL: it can. */
const char *ledger_file_fault(const struct ledger_file *file);

/* Does a process have the slot? False also if its member has died. */
bool ledger_slot_is_taken(const struct ledger_file *file, unsigned slot);

/* Is the number of a slot's process of this process's PID namespace? */
bool ledger_slot_is_here(const struct ledger_slot *slot);

/* Empty the slots of members that have died and whose memory is gone. Returns
 * the bytes of their leases. */
uint64_t ledger_empty_dead(const struct ledger_file *file);

/* Become the one process that changes guarantees and the limit, and clear the
 * wishes that a killed one left behind. Returns a descriptor to close; -1 if
 * another process does so for long, or on failure. */
int ledger_lock_setter(const struct ledger_file *file);

/* Set the guarantee of a slot, or the limit, under that lock. WEIR_ENOMEM, with
 * the reason, if the charges do not allow it. */
enum weir_status ledger_set_guarantee(
    const struct ledger_file *file, unsigned slot, uint64_t bytes);
enum weir_status ledger_set_limit(
    const struct ledger_file *file, uint64_t bytes);

/* Wake those that wait for memory. */
void ledger_ring_turn(struct ledger *ledger);

#endif
