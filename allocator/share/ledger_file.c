/*
 * The files of ledgers: opening them, slots and locks.
 */
#include "allocator/share/ledger_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/barrier.h"
#include "base/futex.h"
#include "base/os.h"
#include "base/process.h"
#include "base/status.h"

static const char ledger_magic[8] = "weirLED\1";
enum { LEDGER_VERSION = 3 };

/* Bytes of the file that are locked: the setter's, and that of slot i. */
enum { LOCK_SETTER, LOCK_SLOTS };

/* ---- Names -------------------------------------------------------------- */

bool
ledger_is_name(const char *group)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-_.";
	size_t length = strlen(group);

	_Static_assert(LEDGER_GROUP == 48, "LEDGER_NAME_RULE says 47");
	return length > 0 && length < LEDGER_GROUP && group[0] != '.' &&
	    strspn(group, allowed) == length;
}

static void
ledger_name(const char *group, const unsigned char uuid[LEDGER_UUID],
    char name[NAME_MAX + 1])
{
	int n = snprintf(name, NAME_MAX + 1, "%s.", group);

	for (int i = 0; i < LEDGER_UUID; i++)
		n += snprintf(
		    name + n, (size_t)(NAME_MAX + 1 - n), "%02x", uuid[i]);
	snprintf(name + n, (size_t)(NAME_MAX + 1 - n), ".ledger");
}

static bool
is_ledger_name(const char *name)
{
	static const char end[] = ".ledger";
	size_t length = strlen(name);

	return length > sizeof(end) + 2 * LEDGER_UUID &&
	    strcmp(name + length - (sizeof(end) - 1), end) == 0;
}

static enum weir_status
fail_ledger(const char *what, const char *path)
{
	char text[128];

	return status_set(WEIR_EINVAL, "%s: %s: %s", path, what,
	    strerror_r(errno, text, sizeof(text)));
}

/* ---- The folder --------------------------------------------------------- */

static bool
default_folder(char path[LEDGER_PATH])
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	int n;

	if (runtime != NULL && *runtime == '/')
		n = snprintf(path, LEDGER_PATH, "%s/weir", runtime);
	else
		n = snprintf(path, LEDGER_PATH, "/dev/shm/weir-%lu",
		    (unsigned long)geteuid());
	return n > 0 && n < LEDGER_PATH;
}

/* Check the folder, and find who may use its ledgers. */
static enum weir_status
check_ledger_folder(struct ledger_folder *folder, bool named)
{
	struct stat found;

	if (fstat(folder->fd, &found) != 0)
		return fail_ledger("cannot be looked at", folder->path);
	folder->several = named && (found.st_mode & S_ISVTX) != 0 &&
	    (found.st_mode & 022) != 0;
	folder->mode = folder->several ? found.st_mode & 0666 : 0600;
	if (folder->several)
		return WEIR_OK;
	if (found.st_uid != geteuid())
		return status_set(WEIR_EINVAL,
		    "%s: belongs to user %lu, not to %lu: not used",
		    folder->path, (unsigned long)found.st_uid,
		    (unsigned long)geteuid());
	if ((found.st_mode & (named ? 022 : 077)) != 0)
		return status_set(WEIR_EINVAL,
		    "%s: others may %s it (mode %03o)%s: not used",
		    folder->path, named ? "write to" : "use",
		    (unsigned)found.st_mode & 0777,
		    named ? ", and it has no sticky bit" : "");
	return WEIR_OK;
}

enum weir_status
ledger_folder_open(const char *given, bool make, struct ledger_folder *out)
{
	bool named = given[0] != '\0';

	*out = (struct ledger_folder){ .fd = -1 };
	if (named)
		snprintf(out->path, LEDGER_PATH, "%s", given);
	else if (!default_folder(out->path))
		return status_set(
		    WEIR_EINVAL, "XDG_RUNTIME_DIR is too long for a folder");
	if (make && !named && mkdir(out->path, 0700) != 0 && errno != EEXIST)
		return fail_ledger("cannot be made", out->path);
	out->fd = os_fd_up(
	    open(out->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	if (out->fd < 0 && errno == ENOENT && !make && !named)
		return WEIR_ENOTSUP;
	if (out->fd < 0)
		return fail_ledger("is no folder to be used", out->path);
	enum weir_status status = check_ledger_folder(out, named);
	if (status != WEIR_OK) {
		close(out->fd);
		out->fd = -1;
	}
	return status;
}

/* ---- Locks -------------------------------------------------------------- */

static bool
lock_byte(int fd, int byte, short type)
{
	struct flock lock = { .l_type = type,
		.l_whence = SEEK_SET,
		.l_start = byte,
		.l_len = 1 };

	return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/* Lock the setter's byte, which another process soon unlocks. */
static bool
lock_setter(int fd)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	for (int i = 0; i < SETTER_WAIT_MS; i++) {
		if (lock_byte(fd, LOCK_SETTER, F_WRLCK))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

/* ---- The file ----------------------------------------------------------- */

static enum weir_status
check_ledger_file(
    int fd, const struct ledger_folder *folder, const char *name, bool made)
{
	struct stat file;

	if (fstat(fd, &file) != 0)
		return fail_ledger("cannot be looked at", name);
	if (!S_ISREG(file.st_mode) || file.st_nlink != 1)
		return status_set(WEIR_EINVAL,
		    "%s/%s: no plain file with one name", folder->path, name);
	if (file.st_uid != geteuid() && !folder->several)
		return status_set(WEIR_EINVAL,
		    "%s/%s: belongs to user %lu: not used", folder->path, name,
		    (unsigned long)file.st_uid);
	if ((file.st_mode & 0777 & ~folder->mode) != 0)
		return status_set(WEIR_EINVAL,
		    "%s/%s: others may use it (mode %03o): not used",
		    folder->path, name, (unsigned)file.st_mode & 0777);
	if (file.st_size != sizeof(struct ledger) &&
	    (file.st_size != 0 || !made))
		return status_set(WEIR_EINVAL,
		    "%s/%s: not a ledger of this version of weir: remove it",
		    folder->path, name);
	return WEIR_OK;
}

/* Give a new ledger its contents, the magic last. Under the setter's lock. */
static void
fill_ledger(struct ledger *ledger, const char *group,
    const struct ledger_device *device, uint64_t limit)
{
	ledger->version = LEDGER_VERSION;
	ledger->slot_count = LEDGER_MEMBERS;
	memcpy(ledger->uuid, device->uuid, LEDGER_UUID);
	ledger->total_bytes = device->total_bytes;
	memset(ledger->group, 0, LEDGER_GROUP);
	memcpy(ledger->group, group, strlen(group));
	atomic_store(&ledger->limit, limit);
	barrier_full();
	memcpy(ledger->magic, ledger_magic, sizeof(ledger_magic));
}

static const char *
header_fault(const struct ledger *ledger)
{
	if (memcmp(ledger->magic, ledger_magic, sizeof(ledger_magic)) != 0 ||
	    ledger->version != LEDGER_VERSION ||
	    ledger->slot_count != LEDGER_MEMBERS ||
	    ledger->group[LEDGER_GROUP - 1] != '\0' ||
	    !ledger_is_name(ledger->group))
		return "it is not a ledger of this version of weir: remove it";
	return NULL;
}

static const char other_ledger[] =
    "it is the ledger of another group or device: remove it";

/* The fault of a ledger in a file of this name, such as a copy. */
static const char *
name_fault(const struct ledger *ledger, const char *name)
{
	const char *fault = header_fault(ledger);
	char own[NAME_MAX + 1];

	if (fault != NULL)
		return fault;
	ledger_name(ledger->group, ledger->uuid, own);
	return strcmp(own, name) != 0 ? other_ledger : NULL;
}

static const char *
ledger_mismatch(const struct ledger *ledger, const char *group,
    const struct ledger_device *device)
{
	const char *fault = header_fault(ledger);

	if (fault != NULL)
		return fault;
	return strcmp(ledger->group, group) != 0 ||
		memcmp(ledger->uuid, device->uuid, LEDGER_UUID) != 0 ||
		ledger->total_bytes != device->total_bytes ?
	    other_ledger :
	    NULL;
}

/* Map the file, and remember which one it is. Keeps no descriptor to it but
 * the one with O_PATH. */
static enum weir_status
map_ledger(int fd, const char *name, struct ledger_file *out)
{
	char path[64];
	struct stat file;
	void *memory;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	out->slot = -1;
	out->fd = os_fd_up(open(path, O_PATH | O_CLOEXEC));
	if (out->fd < 0 || fstat(out->fd, &file) != 0)
		return fail_ledger("cannot be opened again", name);
	out->device = file.st_dev;
	out->number = file.st_ino;
	memory = mmap(NULL, sizeof(struct ledger), PROT_READ | PROT_WRITE,
	    MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		close(out->fd);
		return fail_ledger("cannot be mapped", name);
	}
	madvise(memory, sizeof(struct ledger), MADV_DONTFORK);
	out->ledger = memory;
	return WEIR_OK;
}

/* Make the ledger in a file that is new, or was left half made. */
static enum weir_status
make_ledger(int fd, const char *name, const char *group,
    const struct ledger_device *device, uint64_t limit)
{
	static const char none[sizeof(ledger_magic)];
	struct ledger *ledger;

	if (ftruncate(fd, sizeof(*ledger)) != 0)
		return fail_ledger("cannot be made", name);
	ledger = mmap(
	    NULL, sizeof(*ledger), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ledger == MAP_FAILED)
		return fail_ledger("cannot be mapped", name);
	if (memcmp(ledger->magic, none, sizeof(none)) == 0)
		fill_ledger(ledger, group, device, limit);
	munmap(ledger, sizeof(*ledger));
	return WEIR_OK;
}

enum weir_status
ledger_file_open(const struct ledger_folder *folder, const char *group,
    const struct ledger_device *device, uint64_t limit, struct ledger_file *out)
{
	const int flags =
	    O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
	char name[NAME_MAX + 1];
	enum weir_status status = WEIR_OK;
	int fd;

	ledger_name(group, device->uuid, name);
	fd = os_fd_up(
	    openat(folder->fd, name, flags | (limit != 0 ? O_CREAT : 0), 0600));
	if (fd < 0)
		return fail_ledger("cannot be opened", name);
	/* A mode for several users is set in spite of the umask. */
	if (folder->several)
		(void)fchmod(fd, folder->mode);
	status = check_ledger_file(fd, folder, name, limit != 0);
	if (status == WEIR_OK && !lock_setter(fd))
		status = status_set(WEIR_EINVAL,
		    "%s: another process has locked it for long", name);
	if (status == WEIR_OK && limit != 0)
		status = make_ledger(fd, name, group, device, limit);
	lock_byte(fd, LOCK_SETTER, F_UNLCK);
	if (status == WEIR_OK)
		status = map_ledger(fd, name, out);
	close(fd);
	if (status != WEIR_OK)
		return status;
	const char *fault = ledger_mismatch(out->ledger, group, device);
	if (fault == NULL)
		return WEIR_OK;
	ledger_file_close(out);
	return status_set(WEIR_EINVAL, "%s/%s: %s", folder->path, name, fault);
}

enum weir_status
ledger_file_named(const struct ledger_folder *folder, const char *name,
    struct ledger_file *out)
{
	int fd;

	if (!is_ledger_name(name))
		return WEIR_ENOTSUP;
	fd = os_fd_up(openat(
	    folder->fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
	if (fd < 0)
		return fail_ledger("cannot be opened", name);
	enum weir_status status = check_ledger_file(fd, folder, name, false);
	if (status == WEIR_OK)
		status = map_ledger(fd, name, out);
	close(fd);
	if (status != WEIR_OK)
		return status;
	const char *fault = name_fault(out->ledger, name);
	if (fault == NULL)
		return WEIR_OK;
	ledger_file_close(out);
	return status_set(WEIR_EINVAL, "%s/%s: %s", folder->path, name, fault);
}

void
ledger_file_close(struct ledger_file *file)
{
	munmap(file->ledger, sizeof(*file->ledger));
	close(file->fd);
	*file = (struct ledger_file){ .fd = -1, .slot = -1 };
}

/* Is the descriptor still that of the file? The program may have closed it, and
 * opened another file with its number. */
static bool
finds_file(const struct ledger_file *file, struct stat *found)
{
	return fstat(file->fd, found) == 0 && found->st_dev == file->device &&
	    found->st_ino == file->number;
}

const char *
ledger_file_fault(const struct ledger_file *file)
{
	struct stat found;

	if (finds_file(file, &found)) {
		if (found.st_nlink == 0)
			return "its file was removed";
		if (found.st_size != sizeof(struct ledger))
			return "its file was cut off or extended";
	}
	return header_fault(file->ledger) != NULL ? "its file was overwritten" :
						    NULL;
}

/* Open the file again, for locks of its own. */
static int
reopen(const struct ledger_file *file)
{
	struct stat found;
	char path[64];

	if (!finds_file(file, &found) || ledger_file_fault(file) != NULL)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
	return os_fd_up(open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK));
}

bool
ledger_slot_is_taken(const struct ledger_file *file, unsigned slot)
{
	struct flock lock = { .l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = LOCK_SLOTS + (off_t)slot,
		.l_len = 1 };
	int fd = reopen(file);
	bool taken;

	if (fd < 0)
		return false;
	taken = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
	close(fd);
	return taken;
}

/* ---- Processes ---------------------------------------------------------- */

static uint64_t
pid_namespace(void)
{
	struct stat space;

	return stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
}

bool
ledger_slot_is_here(const struct ledger_slot *slot)
{
	return atomic_load(&slot->pid_space) == pid_namespace();
}

/* Is the memory of a member that has no lock any more gone from the device? */
static bool
memory_is_gone(struct ledger_slot *slot)
{
	uint64_t pid = atomic_load(&slot->pid);
	uint64_t died_ns = atomic_load(&slot->died_ns);
	uint64_t now_ns = os_monotonic_ns();

	if (pid == 0)
		return true;
	if (ledger_slot_is_here(slot))
		return process_has_ended(pid, atomic_load(&slot->started));
	if (died_ns == 0 || died_ns > now_ns) {
		atomic_store(&slot->died_ns, now_ns);
		return false;
	}
	return now_ns - died_ns >= FOREIGN_DEATH_MS * UINT64_C(1000000);
}

/* ---- Slots -------------------------------------------------------------- */

static void
empty_slot(struct ledger *ledger, unsigned i)
{
	struct ledger_op op;

	ledger_op_begin(&op, ledger, LEDGER_EMPTY, i, 0);
	ledger_run(&op);
}

uint64_t
ledger_empty_dead(const struct ledger_file *file)
{
	struct ledger *ledger = file->ledger;
	uint64_t bytes = 0;
	int fd = reopen(file);

	if (fd < 0)
		return 0;
	for (unsigned i = 0; i < LEDGER_MEMBERS; i++) {
		struct ledger_slot *slot = &ledger->slots[i];

		if ((int)i == file->slot || atomic_load(&slot->pid) == 0 ||
		    !lock_byte(fd, LOCK_SLOTS + (int)i, F_WRLCK))
			continue;
		if (memory_is_gone(slot)) {
			bytes += atomic_load(&slot->lease);
			empty_slot(ledger, i);
		}
		lock_byte(fd, LOCK_SLOTS + (int)i, F_UNLCK);
	}
	close(fd);
	if (bytes > 0)
		ledger_ring_turn(ledger);
	return bytes;
}

/* Take the first slot that nobody has and whose memory is gone; -1: none. */
static int
lock_slot(int fd, struct ledger *ledger)
{
	for (unsigned i = 0; i < LEDGER_MEMBERS; i++) {
		if (!lock_byte(fd, LOCK_SLOTS + (int)i, F_WRLCK))
			continue;
		if (memory_is_gone(&ledger->slots[i]))
			return (int)i;
		lock_byte(fd, LOCK_SLOTS + (int)i, F_UNLCK);
	}
	return -1;
}

static void
enter_slot(struct ledger_slot *slot)
{
	char program[LEDGER_PROGRAM] = "";

	atomic_store(&slot->want, 0);
	atomic_store(&slot->asked, 0);
	atomic_store(&slot->idle, 0);
	atomic_store(&slot->given, 0);
	atomic_store(&slot->doze_until_ns, 0);
	atomic_store(&slot->used_ns, 0);
	atomic_store(&slot->dozing, 0);
	atomic_store(&slot->state, LEDGER_AWAKE);
	atomic_store(&slot->priority, 0);
	atomic_store(&slot->died_ns, 0);
	snprintf(program, sizeof(program), "%s", program_invocation_short_name);
	memcpy(slot->program, program, sizeof(program));
	atomic_store(&slot->pid_space, pid_namespace());
	atomic_store(&slot->started, process_own_start());
	atomic_store(&slot->pid, os_process_id());
}

/* Map the ledger anew, from the open file that the lock belongs to. */
static enum weir_status
join_mapped(struct ledger_file *file, int fd)
{
	void *memory = mmap(NULL, sizeof(struct ledger), PROT_READ | PROT_WRITE,
	    MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		return fail_ledger("cannot be mapped", file->ledger->group);
	madvise(memory, sizeof(struct ledger), MADV_DONTFORK);
	munmap(file->ledger, sizeof(struct ledger));
	file->ledger = memory;
	return WEIR_OK;
}

enum weir_status
ledger_join(struct ledger_file *file)
{
	int fd = reopen(file);
	enum weir_status status;
	int slot;

	if (fd < 0)
		return fail_ledger("cannot be opened", file->ledger->group);
	slot = lock_slot(fd, file->ledger);
	status = slot < 0 ?
	    status_set(WEIR_EINVAL, "all %d places are taken", LEDGER_MEMBERS) :
	    join_mapped(file, fd);
	if (status == WEIR_OK) {
		empty_slot(file->ledger, (unsigned)slot);
		enter_slot(&file->ledger->slots[slot]);
		file->slot = slot;
	}
	/* The mapping holds the lock from here on. */
	close(fd);
	return status;
}

/* ---- Settings ----------------------------------------------------------- */

int
ledger_lock_setter(const struct ledger_file *file)
{
	struct ledger *ledger = file->ledger;
	int fd = reopen(file);

	if (fd < 0)
		return -1;
	if (!lock_setter(fd)) {
		close(fd);
		return -1;
	}
	atomic_store(&ledger->limit_wish, 0);
	for (unsigned i = 0; i < LEDGER_MEMBERS; i++)
		atomic_store(&ledger->slots[i].wish, 0);
	return fd;
}

/* Make a change that the claims of others may be in the way of. */
static enum weir_status
change_setting(const struct ledger_file *file, enum ledger_change change,
    unsigned slot, uint64_t bytes)
{
	const struct timespec pause = { .tv_nsec = CLAIM_PAUSE_US * 1000 };
	enum ledger_result result = LEDGER_REFUSED;
	struct ledger_op op = { 0 };
	char a[32];
	char b[32];

	for (int i = 0; i < CLAIM_TRIES && result == LEDGER_REFUSED; i++) {
		ledger_op_begin(&op, file->ledger, change, slot, bytes);
		result = ledger_run(&op);
		if (result == LEDGER_REFUSED && !op.met)
			break;
		if (result == LEDGER_REFUSED)
			nanosleep(&pause, NULL);
	}
	ledger_ring_turn(file->ledger);
	if (result == LEDGER_DONE)
		return WEIR_OK;
	if (result == LEDGER_CORRUPT)
		return status_set(WEIR_EINVAL, "the ledger is damaged");
	return status_set(WEIR_ENOMEM,
	    "%s is not possible: members hold, or are guaranteed, %s too much",
	    os_format_bytes(bytes, a, sizeof(a)),
	    os_format_bytes(op.missing, b, sizeof(b)));
}

enum weir_status
ledger_set_guarantee(
    const struct ledger_file *file, unsigned slot, uint64_t bytes)
{
	return change_setting(file, LEDGER_GUARANTEE, slot, bytes);
}

enum weir_status
ledger_set_limit(const struct ledger_file *file, uint64_t bytes)
{
	return change_setting(file, LEDGER_LIMIT, 0, bytes);
}

void
ledger_ring_turn(struct ledger *ledger)
{
	atomic_fetch_add(&ledger->turn, 1);
	if (atomic_load(&ledger->waiting) != 0)
		futex_shared_wake(&ledger->turn);
}
