/*
 * This process as a member of groups: joining, and leases.
 */
#include "allocator/share/member.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/os.h"
#include "base/status.h"
#include "driver/driver.h"

/* The group of the processes that lend and have no group. No name of a user's
 * group begins so. */
static const char lend_group[] = "_lend";

struct membership {
	struct lock lock;
	struct ledger_file file; /* stays mapped; constant after joining */
	atomic_bool joined;      /* and the ledger can be used */
	atomic_bool begun;
	atomic_int holds;
	/* The bytes that were missing at the latest refusal, and those that
	 * were left of the group's limit before it. */
	atomic_size_t missing;
	_Atomic(uint64_t) room;
	_Atomic(enum ledger_state) state; /* also before joining */
	char group[LEDGER_GROUP];
};

static struct membership memberships[DEVICES_MAX];

static struct membership *
membership_of(int device)
{
	ASSERT(device >= 0 && device < DEVICES_MAX);
	struct membership *m = &memberships[device];

	return atomic_load_explicit(&m->joined, memory_order_acquire) &&
		!os_forked() ?
	    m :
	    NULL;
}

/* ---- Joining ------------------------------------------------------------ */

static void
say_no_group(const char *group, int device, const char *why)
{
	log_write(LOG_WARN,
	    "group %s, device %d: %s; this process goes on with its own limit",
	    group, device, why);
}

/* Give up the group: from now on the process has its own limit only. Its slot
 * keeps its lease, because the process keeps its memory. */
static void
give_up_group(struct membership *m, int device, const char *why)
{
	if (atomic_exchange(&m->joined, false))
		say_no_group(m->group, device, why);
}

static enum weir_status
ask_ledger_device(int device, struct ledger_device *out)
{
	CUuuid uuid;
	size_t total;
	CUresult code = driver_peek()->cuDeviceGetUuid(&uuid, device);

	if (code == CUDA_SUCCESS)
		code = driver_peek()->cuDeviceTotalMem(&total, device);
	if (code != CUDA_SUCCESS)
		return driver_status(
		    code, "cuDeviceGetUuid(device %d)", device);
	memcpy(out->uuid, uuid.bytes, LEDGER_UUID);
	out->total_bytes = total;
	return WEIR_OK;
}

/* Is this process the only member? */
static bool
is_alone(const struct ledger_file *file)
{
	for (unsigned i = 0; i < LEDGER_MEMBERS; i++)
		if ((int)i != file->slot &&
		    atomic_load(&file->ledger->slots[i].pid) != 0)
			return false;
	return true;
}

static void
say_not_set(const struct membership *m, const char *what)
{
	log_write(
	    LOG_WARN, "group %s: %s: %s", m->group, what, status_latest_text());
}

/* Set what the options say of this member and of the group. */
static void
set_terms(struct membership *m, const struct options *options)
{
	const struct ledger_file *file = &m->file;
	uint64_t limit = options->group_limit;
	int setter = ledger_lock_setter(file);

	atomic_store(&ledger_own_slot(file)->priority, options->group_priority);
	if (setter < 0) {
		log_write(LOG_WARN,
		    "group %s: another process has locked it for long; limit "
		    "and guarantee are not set",
		    m->group);
		return;
	}
	if (limit > file->ledger->total_bytes)
		limit = file->ledger->total_bytes;
	if (options->group_limit != OPTION_UNLIMITED &&
	    atomic_load(&file->ledger->limit) != limit) {
		bool alone = is_alone(file);
		if (!alone)
			status_set(WEIR_EINVAL,
			    "it has members already; 'weir group %s --limit' "
			    "changes it",
			    m->group);
		if (!alone || limit == 0 ||
		    ledger_set_limit(file, limit) != WEIR_OK)
			say_not_set(m, "the limit");
	}
	if (options->group_guarantee > 0 &&
	    ledger_set_guarantee(file, (unsigned)file->slot,
		options->group_guarantee) != WEIR_OK)
		say_not_set(m, "the guarantee");
	close(setter);
}

static enum weir_status
join_group(struct membership *m, int device, const struct options *options)
{
	bool named = options->group[0] != '\0';
	struct ledger_folder folder;
	struct ledger_device known = { 0 };

	if (named && !ledger_is_name(options->group))
		return status_set(WEIR_EINVAL,
		    "'%s' is no name of a group: " LEDGER_NAME_RULE,
		    options->group);
	strcpy(m->group, named ? options->group : lend_group);
	enum weir_status status = ask_ledger_device(device, &known);
	if (status == WEIR_OK)
		status =
		    ledger_folder_open(options->group_folder, true, &folder);
	if (status != WEIR_OK)
		return status;
	status = ledger_file_open(&folder, m->group, &known,
	    named ? known.total_bytes : LEDGER_BYTES_MAX, &m->file);
	close(folder.fd);
	if (status != WEIR_OK)
		return status;
	ledger_empty_dead(&m->file);
	status = ledger_join(&m->file);
	if (status == WEIR_OK)
		set_terms(m, options);
	else
		ledger_file_close(&m->file);
	return status;
}

static void
publish_state(const struct membership *m)
{
	atomic_store(&ledger_own_slot(&m->file)->state,
	    (uint32_t)atomic_load(&m->state));
}

void
member_begin(int device, const struct options *options)
{
	struct membership *m = &memberships[device];

	ASSERT(device >= 0 && device < DEVICES_MAX);
	if ((options->group[0] == '\0' && !options->lend) ||
	    atomic_exchange(&m->begun, true))
		return;
	lock_init(&m->lock, LOCK_RANK_MEMBER);
	status_mute();
	if (join_group(m, device, options) == WEIR_OK) {
		/* Dekker's handshake with member_set_state(). */
		atomic_store(&m->joined, true);
		publish_state(m);
	} else
		say_no_group(m->group[0] != '\0' ? m->group : options->group,
		    device, status_latest_text());
	status_unmute();
}

/* ---- Leases ------------------------------------------------------------- */

/* Raise the lease. Claims of others may be in the way for a moment. */
static enum ledger_result
lease_claim(const struct ledger_file *file, size_t held, uint64_t *missing)
{
	enum ledger_result result = LEDGER_REFUSED;
	struct ledger_op op;

	for (unsigned i = 1; i <= CLAIM_TRIES; i++) {
		const struct timespec pause = { .tv_nsec = CLAIM_PAUSE_US *
			    1000L * i * (1 + file->slot % 8) };

		ledger_op_begin(
		    &op, file->ledger, LEDGER_TAKE, (unsigned)file->slot, held);
		result = ledger_run(&op);
		*missing = op.missing;
		if (result != LEDGER_REFUSED || !op.met)
			break;
		nanosleep(&pause, NULL);
	}
	return result;
}

static void
lower_lease(const struct ledger_file *file, size_t held)
{
	struct ledger_op op;

	ledger_op_begin(
	    &op, file->ledger, LEDGER_GIVE, (unsigned)file->slot, held);
	ledger_run(&op);
	ledger_ring_turn(file->ledger);
}

/* The bytes of the group's limit that nobody holds, claims, or is promised. */
static uint64_t
group_room(const struct ledger *ledger)
{
	uint64_t limit = atomic_load(&ledger->limit);
	uint64_t charged = ledger_charged(ledger);

	return limit > charged ? limit - charged : 0;
}

/* Raise the lease to `held`, also out of what dead members had. */
static size_t
raise_lease(struct membership *m, int device, size_t held)
{
	uint64_t missing = 0;
	uint64_t room = group_room(m->file.ledger);
	enum ledger_result result = lease_claim(&m->file, held, &missing);

	if (result == LEDGER_REFUSED && ledger_empty_dead(&m->file) > 0) {
		room = group_room(m->file.ledger);
		result = lease_claim(&m->file, held, &missing);
	}
	if (result == LEDGER_CORRUPT)
		give_up_group(m, device, "its ledger is damaged");
	if (result != LEDGER_REFUSED)
		return 0;
	/* Bytes that are free still cannot be missing. */
	uint64_t lease = atomic_load(&ledger_own_slot(&m->file)->lease);
	if (missing > held - lease)
		missing = held - lease;
	atomic_store(&m->room, room);
	atomic_store(&m->missing, (size_t)missing);
	return (size_t)missing;
}

size_t
member_lease(int device, size_t held)
{
	struct membership *m = membership_of(device);
	size_t missing = 0;

	if (m == NULL)
		return 0;
	lock_enter(&m->lock);
	const char *fault = ledger_file_fault(&m->file);
	if (fault != NULL)
		give_up_group(m, device, fault);
	else if (held > atomic_load(&ledger_own_slot(&m->file)->lease))
		missing = raise_lease(m, device, held);
	lock_leave(&m->lock);
	return missing;
}

void
member_settle(int device, size_t held)
{
	struct membership *m = membership_of(device);

	if (m == NULL)
		return;
	lock_enter(&m->lock);
	if (atomic_load(&m->holds) == 0 &&
	    ledger_file_fault(&m->file) == NULL &&
	    held < atomic_load(&ledger_own_slot(&m->file)->lease))
		lower_lease(&m->file, held);
	lock_leave(&m->lock);
}

void
member_hold(int device)
{
	ASSERT(device >= 0 && device < DEVICES_MAX);
	atomic_fetch_add(&memberships[device].holds, 1);
}

void
member_let(int device)
{
	ASSERT(atomic_load(&memberships[device].holds) > 0);
	atomic_fetch_sub(&memberships[device].holds, 1);
}

/* ---- For others --------------------------------------------------------- */

void
member_set_state(int device, enum ledger_state state)
{
	ASSERT(device >= 0 && device < DEVICES_MAX);
	struct membership *m = &memberships[device];

	atomic_store(&m->state, state);
	if (member_file(device) != NULL)
		publish_state(m);
}

struct ledger_file *
member_file(int device)
{
	struct membership *m = membership_of(device);

	return m != NULL && ledger_file_fault(&m->file) == NULL ? &m->file :
								  NULL;
}

size_t
member_take_missing(int device)
{
	ASSERT(device >= 0 && device < DEVICES_MAX);
	return atomic_exchange(&memberships[device].missing, 0);
}

bool
member_has_more_room(int device)
{
	const struct ledger_file *file = member_file(device);

	return file != NULL &&
	    group_room(file->ledger) > atomic_load(&memberships[device].room);
}

unsigned
member_list(
    const struct ledger_file *file, struct member members[LEDGER_MEMBERS])
{
	uint64_t now_ns = os_monotonic_ns();
	unsigned n = 0;

	for (unsigned i = 0; i < LEDGER_MEMBERS; i++) {
		struct ledger_slot *slot = &file->ledger->slots[i];
		uint64_t pid = atomic_load(&slot->pid);
		uint64_t since_ns = atomic_load(&slot->since_ns);

		if (pid == 0)
			continue;
		members[n] = (struct member){ .slot = i,
			.pid = pid,
			.own = (int)i == file->slot,
			.lease_bytes = atomic_load(&slot->lease),
			.guarantee_bytes = atomic_load(&slot->guarantee),
			.idle_bytes = atomic_load(&slot->idle),
			.priority = atomic_load(&slot->priority) };
		if (since_ns != 0) {
			members[n].want_bytes = atomic_load(&slot->want);
			members[n].waits_ns =
			    now_ns > since_ns ? now_ns - since_ns : 0;
		}
		memcpy(members[n].program, slot->program, LEDGER_PROGRAM);
		members[n].program[LEDGER_PROGRAM - 1] = '\0';
		n++;
	}
	return n;
}
