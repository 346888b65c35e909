/*
 * Processes of a group that grow, free, sleep by their own will and for each
 * other, wake, are killed at any step, join, leave and get other limits, at
 * random. What they hold never exceeds the limit of the group, no request or
 * wake within a guarantee fails, contents stay, every lease comes back, and at
 * the end the ledger has no fault.
 *
 * This process only gives orders; it calls no driver. What the members really
 * have of the device is read from simcuda's file of shared devices.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "base/status.h"
#include "tests/support/device.h"
#include "tests/support/peers.h"

enum {
	MEMBERS_MOST = 8,
	BLOCKS = 8,
	LIMIT_LEAST_MIB = 96,
	LIMIT_MOST_MIB = 250,
	GUARANTEE_MIB = 8,
	BLOCK_MOST_MIB = 24,
	EVENTS = 1000000,
};

struct worker {
	struct peer peer;
	bool alive;
	bool guaranteed;
	size_t mib[BLOCKS]; /* of each block; 0: none */
	bool filled[BLOCKS];
};

static struct worker workers[MEMBERS_MOST];
static unsigned worker_count;
static struct ledger_file file;
static uint64_t seed = 1;
static uint64_t refused;
static uint64_t granted;
static uint64_t dozed;
static bool may_sleep; /* the members may, for each other too */

static unsigned
pick(unsigned n)
{
	seed = seed * UINT64_C(6364136223846793005) +
	    UINT64_C(1442695040888963407);
	return (unsigned)(seed >> 33) % n;
}

static size_t
live_mib(const struct worker *worker)
{
	size_t sum = 0;

	for (int i = 0; i < BLOCKS; i++)
		sum += worker->mib[i];
	return sum;
}

/* ---- Members ------------------------------------------------------------ */

static void
join_worker(struct worker *worker)
{
	/* Memory in granules, so that nothing but the limit refuses it. */
	static const char conf[] = "handle_mb:2,tcache:0,lend_ms:20";
	char text[128];

	memset(worker, 0, sizeof(*worker));
	worker->guaranteed = pick(2) == 0;
	snprintf(text, sizeof(text),
	    "%s%s,group_guarantee_mb:%d,"
	    "group_priority:%u",
	    conf, may_sleep ? ",decay_ms:1,may_sleep:True" : "",
	    worker->guaranteed ? GUARANTEE_MIB : 0, pick(3));
	worker->peer = new_peer(text);
	worker->alive = true;
	/* The guarantee is refused if the others have all of the limit. */
	EXPECT_LE(tell_peer(&worker->peer, "take", 0, 2), 1);
	EXPECT(tell_peer(&worker->peer, "give", 0, 0) || !worker->guaranteed);
}

/* Has the member got its guarantee? */
static bool
has_guarantee(const struct worker *worker)
{
	for (int i = 0; i < LEDGER_MEMBERS; i++) {
		const struct ledger_slot *slot = &file.ledger->slots[i];

		if (atomic_load(&slot->pid) == (uint64_t)worker->peer.pid)
			return atomic_load(&slot->guarantee) ==
			    GUARANTEE_MIB * MIB;
	}
	return false;
}

static void
open_ledger_of_workers(void)
{
	struct ledger_device device = { .total_bytes = 256 * MIB };
	struct ledger_folder folder;

	strcpy((char *)device.uuid, "simcuda");
	EXPECT_OK(ledger_folder_open(peers_folder, false, &folder));
	EXPECT_OK(ledger_file_open(&folder, "g", &device, 0, &file));
	close(folder.fd);
}

/* ---- Events ------------------------------------------------------------- */

/* A request or wake has failed, with so much more memory. */
static void
expect_beyond_guarantee(struct worker *worker, size_t more_mib)
{
	size_t mib = live_mib(worker) + more_mib;

	if (!worker->guaranteed || !has_guarantee(worker))
		return;
	if (mib <= GUARANTEE_MIB)
		tell_peer(&worker->peer, "explain", 0, 0);
	EXPECT_GT(mib, GUARANTEE_MIB);
}

static void
take_event(struct worker *worker)
{
	unsigned i = pick(BLOCKS);
	size_t mib = 2 * (1 + pick(BLOCK_MOST_MIB / 2));
	bool done;

	if (worker->mib[i] != 0)
		return;
	done = tell_peer(&worker->peer, "take", i, mib);
	if (done)
		worker->mib[i] = mib;
	else
		expect_beyond_guarantee(worker, mib);
	worker->filled[i] = done && may_sleep && pick(4) == 0;
	if (worker->filled[i])
		EXPECT(tell_peer(&worker->peer, "fill", i, 0));
	granted += done;
	refused += !done;
}

/* A launch of a member that sleeps would wait for others, which wait for this
 * process. */
static void
check_contents(struct worker *worker, unsigned i)
{
	bool asleep = may_sleep && tell_peer(&worker->peer, "slept", 0, 0);

	dozed += asleep;
	if (worker->filled[i] && !asleep)
		EXPECT(tell_peer(&worker->peer, "test", i, 0));
}

static void
give_event(struct worker *worker)
{
	unsigned i = pick(BLOCKS);

	if (worker->mib[i] == 0)
		return;
	check_contents(worker, i);
	EXPECT(tell_peer(&worker->peer, "give", i, 0));
	worker->mib[i] = 0;
}

/* Kill a member while it does something. */
static void
kill_event(struct worker *worker)
{
	static const char *const words[] = { "take", "trim", "sleep", "wake" };

	tell_peer_only(&worker->peer, words[pick(may_sleep ? 4 : 2)],
	    pick(BLOCKS), 2 + 2 * (size_t)pick(8));
	if (pick(4) > 0)
		usleep(pick(400));
	kill_peer(&worker->peer);
	worker->alive = false;
}

/* A member that cannot wake, because others hold its memory, is killed. */
static void
sleep_event(struct worker *worker)
{
	EXPECT(tell_peer(&worker->peer, "sleep", 0, 0));
	if (tell_peer(&worker->peer, "wake", 0, 0))
		return;
	expect_beyond_guarantee(worker, 0);
	kill_event(worker);
}

static void
leave_event(struct worker *worker)
{
	int status;

	fprintf(worker->peer.to, "quit 0 0\n");
	fclose(worker->peer.to);
	EXPECT_EQ(waitpid(worker->peer.pid, &status, 0), worker->peer.pid);
	EXPECT_EQ(status, 0);
	fclose(worker->peer.from);
	worker->alive = false;
}

/* A limit that is too low is refused. */
static void
limit_event(void)
{
	uint64_t bytes =
	    (LIMIT_LEAST_MIB + pick(LIMIT_MOST_MIB - LIMIT_LEAST_MIB)) *
	    (uint64_t)MIB;
	int setter = ledger_lock_setter(&file);

	EXPECT_GE(setter, 0);
	status_mute();
	ledger_set_limit(&file, bytes);
	status_unmute();
	close(setter);
}

/* Does a living process hold the lock of a byte? */
static bool
is_locked(int fd, int byte)
{
	struct flock lock = { .l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = byte,
		.l_len = 1 };

	EXPECT_EQ(fcntl(fd, F_OFD_GETLK, &lock), 0);
	return lock.l_type != F_UNLCK;
}

/* Bytes that living processes have of the device, by simcuda's own file: a
 * magic, then 16 numbers for each process, whose slot i has a lock on byte
 * 1 + i. */
static uint64_t
device_bytes(void)
{
	enum { DEVICES = 16, PROCESSES = 128 };
	uint64_t numbers[1 + DEVICES * PROCESSES];
	uint64_t sum = 0;
	int fd = open(peers_device, O_RDWR);

	EXPECT_EQ(read(fd, numbers, sizeof(numbers)), sizeof(numbers));
	for (int i = 0; i < PROCESSES; i++) {
		uint64_t bytes = numbers[1 + DEVICES * i];

		if (bytes > 0 && is_locked(fd, 1 + i))
			sum += bytes;
	}
	close(fd);
	return sum;
}

/* What the members have been granted. A member that was killed may leave a
 * claim behind that would have been refused; it stays until its slot is
 * emptied, and makes others too careful meanwhile. */
static uint64_t
granted_bytes(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < LEDGER_MEMBERS; i++) {
		const struct ledger_slot *slot = &file.ledger->slots[i];
		uint64_t lease = atomic_load(&slot->lease);
		uint64_t guarantee = atomic_load(&slot->guarantee);

		sum += lease > guarantee ? lease : guarantee;
	}
	return sum;
}

static void
check_sums(void)
{
	uint64_t limit = atomic_load(&file.ledger->limit);

	EXPECT_LE(device_bytes(), limit);
	EXPECT_LE(granted_bytes(), limit);
}

static void
random_event(void)
{
	struct worker *worker = &workers[pick(worker_count)];
	unsigned what = pick(1000);

	if (!worker->alive)
		join_worker(worker);
	else if (what < 500)
		take_event(worker);
	else if (what < 900)
		give_event(worker);
	else if (what < (may_sleep ? 950 : 960))
		EXPECT(tell_peer(&worker->peer, "trim", 0, 0));
	else if (what < 960 && may_sleep)
		sleep_event(worker);
	else if (what < 990)
		limit_event();
	else if (what < 996)
		kill_event(worker);
	else
		leave_event(worker);
	check_sums();
}

static void
run_events(unsigned members)
{
	/* Four tests together make all events. A sleep costs as much as some
	 * hundred others. */
	uint64_t events =
	    test_effort(may_sleep ? EVENTS / 200 : EVENTS / 4) / test_stride();

	share_device();
	worker_count = members;
	join_worker(&workers[0]);
	open_ledger_of_workers();
	for (uint64_t i = 0; i < events; i++)
		random_event();
	for (unsigned i = 0; i < members; i++)
		if (workers[i].alive)
			kill_peer(&workers[i].peer);
	ledger_empty_dead(&file);
	EXPECT_EQ(ledger_charged(file.ledger), 0);
	EXPECT_NULL(ledger_fault(file.ledger));
	/* The first events let the members join. */
	if (events >= 100)
		EXPECT_GT(granted, 0);
	if (events >= 1000 && may_sleep)
		EXPECT_GT(dozed, 0);
	if (events >= 1000 && !may_sleep)
		EXPECT_GT(refused, 0);
	drop_device();
}

static void
run_sleeping_events(unsigned members)
{
	may_sleep = true;
	run_events(members);
}

TEST_TIMEOUT(two_processes_keep_to_the_limit, 3600)
{
	run_events(2);
}

TEST_TIMEOUT(three_processes_keep_to_the_limit, 3600)
{
	seed = 3;
	run_events(3);
}

TEST_TIMEOUT(five_processes_keep_to_the_limit, 3600)
{
	seed = 5;
	run_events(5);
}

TEST_TIMEOUT(eight_processes_keep_to_the_limit, 3600)
{
	seed = 8;
	run_events(8);
}

TEST_TIMEOUT(two_processes_that_sleep_keep_to_the_limit, 3600)
{
	seed = 2;
	run_sleeping_events(2);
}

TEST_TIMEOUT(three_processes_that_sleep_keep_to_the_limit, 3600)
{
	seed = 4;
	run_sleeping_events(3);
}

TEST_TIMEOUT(eight_processes_that_sleep_keep_to_the_limit, 3600)
{
	seed = 9;
	run_sleeping_events(8);
}
