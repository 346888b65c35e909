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

/* The owners of slots lie apart, so that a search touches no slot. */
struct ledger {
	char magic[16];
	char version[32];
	uint64_t slot_bytes;
	uint64_t n_slots;
	_Atomic uint32_t next;               /* where to look for a free slot */
	_Atomic(pid_t) owners[LEDGER_SLOTS]; /* 0: free */
	_Atomic uint32_t kinds[LEDGER_SLOTS];
	union slot slots[LEDGER_SLOTS]; /* that of number 0 is never used */
};

static const char magic[16] = "weir ledger";

/* ---- Making it --------------------------------------------------------- */

static void
begin(struct ledger *ledger)
{
	memcpy(ledger->magic, magic, sizeof(magic));
	strncpy(ledger->version, weir_version(), sizeof(ledger->version) - 1);
	ledger->slot_bytes = sizeof(union slot);
	ledger->n_slots = LEDGER_SLOTS;
	atomic_store(&ledger->next, 1);
}

static struct ledger *
map(int fd, int flags)
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
	ledger = map(fd, MAP_SHARED);
	if (ledger == NULL)
		goto failed;
	begin(ledger);
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
	ledger = map(fd, MAP_SHARED);
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
		ledger = map(-1, MAP_PRIVATE | MAP_ANONYMOUS);
		if (ledger != NULL)
			begin(ledger);
	}
	return ledger;
}

/* ---- Slots ------------------------------------------------------------- */

static bool
is_gone(pid_t pid)
{
	return kill(pid, 0) != 0 && errno == ESRCH;
}

static struct ledger_process *
process_of(struct ledger *ledger, pid_t pid)
{
	for (uint32_t i = 1; i < LEDGER_SLOTS; i++)
		if (atomic_load(&ledger->owners[i]) == pid &&
		    atomic_load(&ledger->kinds[i]) == SLOT_PROCESS)
			return &ledger->slots[i].process;
	return NULL;
}

/* No thread counts there any more, and no reader may read it. */
static bool
is_left(struct ledger *ledger, uint32_t i, pid_t pid)
{
	const struct ledger_process *process;

	if (!is_gone(pid))
		return false;
	process = atomic_load(&ledger->kinds[i]) == SLOT_PROCESS ?
	    &ledger->slots[i].process :
	    process_of(ledger, pid);
	return process == NULL || atomic_load(&process->reported);
}

/* A slot belongs to the negative number of its new process until it is zero. */
static bool
claim(struct ledger *ledger, uint32_t i, pid_t found, pid_t pid,
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
take_free(struct ledger *ledger, pid_t pid, enum slot_kind kind)
{
	uint32_t from = atomic_load(&ledger->next);

	for (uint32_t n = 0; n < LEDGER_SLOTS; n++) {
		uint32_t i = (from + n) % LEDGER_SLOTS;

		if (i != 0 && atomic_load(&ledger->owners[i]) == 0 &&
		    claim(ledger, i, 0, pid, kind))
			return i;
	}
	return 0;
}

static uint32_t
take(struct ledger *ledger, pid_t pid, enum slot_kind kind)
{
	uint32_t found = take_free(ledger, pid, kind);

	for (uint32_t i = 1; i < LEDGER_SLOTS && found == 0; i++) {
		pid_t owner = atomic_load(&ledger->owners[i]);

		if (owner > 0 && is_left(ledger, i, owner) &&
		    claim(ledger, i, owner, pid, kind))
			found = i;
	}
	return found;
}

uint32_t
ledger_take_process(struct ledger *ledger, pid_t pid)
{
	/* The program of the process before an exec. */
	for (uint32_t i = 1; i < LEDGER_SLOTS; i++) {
		pid_t owner = pid;

		if (atomic_load(&ledger->owners[i]) == pid)
			atomic_compare_exchange_strong(
			    &ledger->owners[i], &owner, 0);
	}
	return take(ledger, pid, SLOT_PROCESS);
}

uint32_t
ledger_take_thread(struct ledger *ledger, pid_t pid)
{
	return take(ledger, pid, SLOT_THREAD);
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
