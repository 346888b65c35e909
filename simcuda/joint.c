/*
 * Devices whose memory several processes share.
 *
 * A file has a slot for each process, with the bytes that it has of each
 * device. A process holds a lock on the byte of the file that stands for its
 * slot. The kernel drops the lock when the process ends, however it ends, so
 * that a slot without a lock belongs to nobody, and its bytes are free. One
 * more lock, MUTEX, makes a look at all slots and a change of the own one a
 * single step; the kernel drops it, too, if its holder is killed.
 *
 * The locks are those of open file descriptions, which closing another
 * descriptor of the file does not drop. A forked child closes the descriptor
 * that it inherits: it has no part in its parent's memory.
 */
#include "simcuda/joint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simcuda/sim.h"
#include "simcuda/tuning.h"

static const char magic[8] = "simJNT\1";

struct slot {
	_Atomic(uint64_t) bytes[SIM_DEVICES];
};

struct joint {
	char magic[8];
	struct slot slots[JOINT_PROCESSES];
};

/* Bytes of the file that are locked: MUTEX, and SLOTS + i for slot i. */
enum { MUTEX, SLOTS };

static struct joint *joint; /* NULL: nothing is shared */
static int joint_fd = -1;
static struct slot *own_slot;

/* Lock or unlock a byte of the file; `wait` for another's lock. */
static bool
joint_lock(int byte, short type, bool wait)
{
	struct flock lock = { .l_type = type,
		.l_whence = SEEK_SET,
		.l_start = byte,
		.l_len = 1 };
	int result;

	do
		result =
		    fcntl(joint_fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
	while (result != 0 && errno == EINTR);
	return result == 0;
}

/* Empty the slots of processes that have ended. */
static void
clear_ended(void)
{
	for (int i = 0; i < JOINT_PROCESSES; i++) {
		struct slot *slot = &joint->slots[i];

		if (slot == own_slot || !joint_lock(SLOTS + i, F_WRLCK, false))
			continue;
		for (int d = 0; d < SIM_DEVICES; d++)
			atomic_store(&slot->bytes[d], 0);
		joint_lock(SLOTS + i, F_UNLCK, false);
	}
}

static size_t
sum_slots(int ordinal)
{
	uint64_t sum = 0;

	for (int i = 0; i < JOINT_PROCESSES; i++)
		sum += atomic_load(&joint->slots[i].bytes[ordinal]);
	return sum;
}

static bool
fits(int ordinal, size_t size, size_t limit)
{
	size_t used = sum_slots(ordinal);

	return used <= limit && size <= limit - used;
}

/* Give a new file its form. Under MUTEX. */
static bool
check_joint(void)
{
	static const char none[sizeof(magic)];
	struct stat file;

	if (fstat(joint_fd, &file) != 0 || !S_ISREG(file.st_mode) ||
	    (file.st_size != 0 && file.st_size != sizeof(*joint)) ||
	    ftruncate(joint_fd, sizeof(*joint)) != 0)
		return false;
	joint = mmap(NULL, sizeof(*joint), PROT_READ | PROT_WRITE, MAP_SHARED,
	    joint_fd, 0);
	if (joint == MAP_FAILED) {
		joint = NULL;
		return false;
	}
	if (memcmp(joint->magic, none, sizeof(magic)) == 0)
		memcpy(joint->magic, magic, sizeof(magic));
	return memcmp(joint->magic, magic, sizeof(magic)) == 0;
}

static bool
take_joint_slot(void)
{
	for (int i = 0; i < JOINT_PROCESSES && own_slot == NULL; i++)
		if (joint_lock(SLOTS + i, F_WRLCK, false))
			own_slot = &joint->slots[i];
	if (own_slot == NULL)
		return false;
	for (int d = 0; d < SIM_DEVICES; d++)
		atomic_store(&own_slot->bytes[d], 0);
	return true;
}

bool
joint_begin(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
	bool joined;

	/* Not 0, 1 or 2, which a program may have closed. */
	joint_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (fd >= 0)
		close(fd);
	if (joint_fd < 0 || !joint_lock(MUTEX, F_WRLCK, true)) {
		fprintf(stderr, "simcuda: SIMCUDA_CONF: shared_device:%s: %s\n",
		    path, strerror(errno));
		return false;
	}
	joined = check_joint() && take_joint_slot();
	joint_lock(MUTEX, F_UNLCK, false);
	if (!joined)
		fprintf(stderr, "simcuda: SIMCUDA_CONF: shared_device:%s: %s\n",
		    path,
		    joint == NULL ? "not a file of shared devices" :
				    "too many processes share it");
	return joined;
}

void
joint_leave_in_child(void)
{
	/* The mapping refers to the open file, too. */
	if (joint != NULL)
		munmap(joint, sizeof(*joint));
	if (joint_fd >= 0)
		close(joint_fd);
	joint_fd = -1;
	joint = NULL;
	own_slot = NULL;
}

bool
joint_take(int ordinal, size_t size, size_t limit)
{
	bool taken;

	if (joint == NULL || ordinal >= SIM_DEVICES)
		return true;
	joint_lock(MUTEX, F_WRLCK, true);
	taken = fits(ordinal, size, limit);
	if (!taken) {
		clear_ended();
		taken = fits(ordinal, size, limit);
	}
	if (taken)
		atomic_fetch_add(&own_slot->bytes[ordinal], size);
	joint_lock(MUTEX, F_UNLCK, false);
	return taken;
}

void
joint_give(int ordinal, size_t size)
{
	if (joint != NULL && ordinal < SIM_DEVICES)
		atomic_fetch_sub(&own_slot->bytes[ordinal], size);
}

size_t
joint_used(int ordinal, size_t own)
{
	size_t used;

	if (joint == NULL || ordinal >= SIM_DEVICES)
		return own;
	joint_lock(MUTEX, F_WRLCK, true);
	clear_ended();
	used = sum_slots(ordinal);
	joint_lock(MUTEX, F_UNLCK, false);
	return used;
}
