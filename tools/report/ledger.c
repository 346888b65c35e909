/*
 * The ledger: its slots, and their sums. See ledger.h.
 */
#include "tools/report/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum slot_kind { SLOT_PROCESS = 1, SLOT_THREAD };

union slot {
	struct ledger_process process;
	struct ledger_thread thread;
};

/* The owners of slots are in an array of their own, so that a search touches no
 * slot. */
struct ledger {
	char magic[16];
	char version[32];
	uint64_t slot_bytes;
	uint64_t n_slots;
	_Atomic(pid_t) promised;             /* see ledger_promise(); 0: none */
	char destination[4096];              /* of the promised report */
	_Atomic uint32_t next;               /* begin of the next search */
	_Atomic(pid_t) owners[LEDGER_SLOTS]; /* 0: free */
	_Atomic uint32_t kinds[LEDGER_SLOTS];
	union slot slots[LEDGER_SLOTS]; /* slot 0 is never used */
};

static const char magic[16] = "weir ledger";

/* ---- Making it --------------------------------------------------------- */

static void
begin_ledger(struct ledger *ledger)
{
	memcpy(ledger->magic, magic, sizeof(magic));
	strncpy(ledger->version, weir_version(), sizeof(ledger->version) - 1);
	ledger->slot_bytes = sizeof(union slot);
	ledger->n_slots = LEDGER_SLOTS;
	atomic_store(&ledger->next, 1);
}

static struct ledger *
map_ledger(int fd, int flags)
{
	void *place = mmap(NULL, sizeof(struct ledger), PROT_READ | PROT_WRITE,
	    flags | MAP_NORESERVE, fd, 0);

	return place == MAP_FAILED ? NULL : place;
}

int
ledger_make(void)
{
	int fd = memfd_create("weir-report", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct ledger *ledger;

	if (fd < 0)
		return -1;
	if (ftruncate(fd, sizeof(struct ledger)) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
		0)
		goto failed;
	ledger = map_ledger(fd, MAP_SHARED);
	if (ledger == NULL)
		goto failed;
	begin_ledger(ledger);
	munmap(ledger, sizeof(*ledger));
	return fd;

failed:
	close(fd);
	return -1;
}

static bool
is_ours(const struct ledger *ledger)
{
	return memcmp(ledger->magic, magic, sizeof(magic)) == 0 &&
	    strncmp(ledger->version, weir_version(), sizeof(ledger->version)) ==
	    0 &&
	    ledger->slot_bytes == sizeof(union slot) &&
	    ledger->n_slots == LEDGER_SLOTS;
}

struct ledger *
ledger_map(int fd)
{
	struct stat about;
	struct ledger *ledger;

	if (fd < 0 || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) ||
	    about.st_size != (off_t)sizeof(struct ledger) ||
	    about.st_uid != geteuid() ||
	    (fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) == 0)
		return NULL;
	ledger = map_ledger(fd, MAP_SHARED);
	if (ledger != NULL && !is_ours(ledger)) {
		munmap(ledger, sizeof(*ledger));
		ledger = NULL;
	}
	return ledger;
}

struct ledger *
ledger_open(const char *path)
{
	struct ledger *ledger = NULL;
	int fd = -1;

	if (path != NULL && *path == '/')
		fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0) {
		ledger = ledger_map(fd);
		close(fd);
	}
	if (ledger == NULL) {
		ledger = map_ledger(-1, MAP_PRIVATE | MAP_ANONYMOUS);
		if (ledger != NULL)
			begin_ledger(ledger);
	}
	return ledger;
}

/* ---- The promise ------------------------------------------------------- */

void
ledger_promise(struct ledger *ledger, pid_t pid, const char *destination)
{
	size_t length = strlen(destination);

	if (length >= sizeof(ledger->destination))
		return;
	memcpy(ledger->destination, destination, length + 1);
	atomic_store(&ledger->promised, pid);
}

bool
ledger_is_promised(
    const struct ledger *ledger, pid_t pid, const char *destination)
{
	return atomic_load(&ledger->promised) == pid &&
	    strncmp(ledger->destination, destination,
		sizeof(ledger->destination)) == 0;
}

/* ---- Slots ------------------------------------------------------------- */

static bool
process_has_ended(pid_t pid)
{
	return kill(pid, 0) != 0 && errno == ESRCH;
}

static struct ledger_process *
slot_of_process(struct ledger *ledger, pid_t pid)
{
	for (uint32_t i = 1; i < LEDGER_SLOTS; i++)
		if (atomic_load(&ledger->owners[i]) == pid &&
		    atomic_load(&ledger->kinds[i]) == SLOT_PROCESS)
			return &ledger->slots[i].process;
	return NULL;
}

/* True if a slot may be reused: its process has ended, and the report of the
 * process is written. */
static bool
is_reusable(struct ledger *ledger, uint32_t i, pid_t pid)
{
	const struct ledger_process *process;

	if (!process_has_ended(pid))
		return false;
	process = atomic_load(&ledger->kinds[i]) == SLOT_PROCESS ?
	    &ledger->slots[i].process :
	    slot_of_process(ledger, pid);
	return process == NULL || atomic_load(&process->reported);
}

/* Acquire a slot whose owner is `found`. The owner is the negative number of
 * the new process until all bytes of the slot are 0. False if another process
 * has acquired the slot. */
static bool
claim_slot(struct ledger *ledger, uint32_t i, pid_t found, pid_t pid,
    enum slot_kind kind)
{
	if (!atomic_compare_exchange_strong(&ledger->owners[i], &found, -pid))
		return false;
	memset(&ledger->slots[i], 0, sizeof(ledger->slots[i]));
	atomic_store(&ledger->kinds[i], kind);
	atomic_store(&ledger->owners[i], pid);
	atomic_store(&ledger->next, i + 1);
	return true;
}

static uint32_t
acquire_free_slot(struct ledger *ledger, pid_t pid, enum slot_kind kind)
{
	uint32_t from = atomic_load(&ledger->next);

	for (uint32_t n = 0; n < LEDGER_SLOTS; n++) {
		uint32_t i = (from + n) % LEDGER_SLOTS;

		if (i != 0 && atomic_load(&ledger->owners[i]) == 0 &&
		    claim_slot(ledger, i, 0, pid, kind))
			return i;
	}
	return 0;
}

static uint32_t
acquire_slot(struct ledger *ledger, pid_t pid, enum slot_kind kind)
{
	uint32_t found = acquire_free_slot(ledger, pid, kind);

	for (uint32_t i = 1; i < LEDGER_SLOTS && found == 0; i++) {
		pid_t owner = atomic_load(&ledger->owners[i]);

		if (owner > 0 && is_reusable(ledger, i, owner) &&
		    claim_slot(ledger, i, owner, pid, kind))
			found = i;
	}
	return found;
}

uint32_t
ledger_acquire_process(struct ledger *ledger, pid_t pid)
{
	/* Free the slots that the process had before an exec. */
	for (uint32_t i = 1; i < LEDGER_SLOTS; i++) {
		pid_t owner = pid;

		if (atomic_load(&ledger->owners[i]) == pid)
			atomic_compare_exchange_strong(
			    &ledger->owners[i], &owner, 0);
	}
	return acquire_slot(ledger, pid, SLOT_PROCESS);
}

uint32_t
ledger_acquire_thread(struct ledger *ledger, pid_t pid)
{
	return acquire_slot(ledger, pid, SLOT_THREAD);
}

static bool
is_of_kind(const struct ledger *ledger, uint32_t i, enum slot_kind kind)
{
	return i > 0 && i < LEDGER_SLOTS &&
	    atomic_load(&ledger->owners[i]) > 0 &&
	    atomic_load(&ledger->kinds[i]) == kind;
}

struct ledger_process *
ledger_process(struct ledger *ledger, uint32_t slot)
{
	return is_of_kind(ledger, slot, SLOT_PROCESS) ?
	    &ledger->slots[slot].process :
	    NULL;
}

struct ledger_thread *
ledger_thread(struct ledger *ledger, uint32_t slot)
{
	return is_of_kind(ledger, slot, SLOT_THREAD) ?
	    &ledger->slots[slot].thread :
	    NULL;
}

pid_t
ledger_owner(const struct ledger *ledger, uint32_t slot)
{
	return slot > 0 && slot < LEDGER_SLOTS ?
	    atomic_load(&ledger->owners[slot]) :
	    0;
}
