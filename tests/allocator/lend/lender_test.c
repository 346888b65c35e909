/*
 * Members of a group that doze: they are put to sleep for others, and wake by
 * themselves.
 */
#include "allocator/lend/lender.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/sleep.h>

#include "base/futex.h"
#include "base/os.h"
#include "tests/support/device.h"
#include "tests/support/peers.h"

/* A member that may doze after 40 ms. Another one has all the time it needs. */
#define DOZES "may_sleep:True,decay_ms:40,handle_mb:2"
#define PATIENT "lend_ms:20000,handle_mb:2"

enum { DOZES_NS = 40 * 1000 * 1000 };

/* Longer than it takes the lending thread to see that nothing was used. */
enum { IDLE_US = 100 * 1000 };

/* A member that holds 40 MiB with contents, and has been idle. */
static struct peer
new_dozer(const char *options)
{
	struct peer peer = new_peer(options);

	EXPECT(tell_peer(&peer, "take", 1, 40));
	EXPECT(tell_peer(&peer, "fill", 1, 0));
	usleep(IDLE_US);
	return peer;
}

/* Wait until a member that may doze has seen that it was not used for long
 * enough. If its lending thread is late, as on a busy machine, all that came
 * before its look is new to it. */
static void
await_idle(struct ledger_slot *slot)
{
	uint32_t bell = atomic_fetch_add(&slot->bell, 1) + 1;

	futex_shared_wake(&slot->bell);
	EXPECT_SOON((int32_t)(atomic_load(&slot->answered) - bell) >= 0);
	uint64_t used_ns = atomic_load(&slot->used_ns);
	EXPECT_SOON(used_ns == 0 || os_monotonic_ns() - used_ns > DOZES_NS);
}

/* Join the group, and wait until all of its members are idle. */
static void
join_idle(void)
{
	join_with(PATIENT);
	give(take(2 * MIB, NULL));
	struct ledger *ledger = ledger_here()->ledger;
	for (int i = 0; i < LEDGER_MEMBERS; i++)
		if (atomic_load(&ledger->slots[i].pid) != 0)
			await_idle(&ledger->slots[i]);
}

/* A request that needs more than is free has the member sleep for it. Returns
 * its block. */
static void *
send_to_sleep(struct peer *peer)
{
	join_idle();
	void *block = take(50 * MIB, NULL);

	EXPECT(tell_peer(peer, "slept", 0, 0));
	return block;
}

static void
end_with(struct peer *peer)
{
	kill_peer(peer);
	drop_device();
}

/* Such a request fails, and the member stays awake. */
static void
expect_not_enough(struct peer *peer)
{
	join_with("lend_ms:2000,handle_mb:2");
	EXPECT_NO_MEMORY(weir_malloc(50 * MIB, NULL), WEIR_ENOMEM);
	EXPECT(!tell_peer(peer, "slept", 0, 0));
}

static void
expect_no_leases_when_all_are_dead(struct peer *peer)
{
	kill_peer(peer);
	EXPECT_SOON(ledger_empty_dead(ledger_here()) > 0 ||
	    atomic_load(&ledger_here()->ledger->slots[0].pid) == 0);
	EXPECT_NULL(ledger_fault(ledger_here()->ledger));
}

/* Does the ledger say so of the peer, which joined first? */
static void
expect_state(enum ledger_state state)
{
	EXPECT_EQ(atomic_load(&ledger_here()->ledger->slots[0].state), state);
}

TEST(an_idle_member_sleeps_for_another_one_and_wakes_with_its_contents)
{
	struct peer peer;

	share_device();
	peer = new_dozer("group_limit_mb:64," DOZES);
	void *block = send_to_sleep(&peer);
	expect_state(LEDGER_DOZES);
	EXPECT_LE(ledger_charged(ledger_here()->ledger), 64 * MIB);
	give(block);
	/* It asks this process for unused memory, by the launch's own will. */
	EXPECT(tell_peer(&peer, "test", 1, 0));
	EXPECT(!tell_peer(&peer, "slept", 0, 0));
	expect_state(LEDGER_AWAKE);
	expect_healthy();
	expect_no_leases_when_all_are_dead(&peer);
	drop_device();
}

TEST(a_request_wakes_a_member_that_dozes)
{
	struct peer peer;

	share_device();
	peer = new_dozer("group_limit_mb:64," DOZES);
	give(send_to_sleep(&peer));
	EXPECT(tell_peer(&peer, "take", 2, 10));
	EXPECT(!tell_peer(&peer, "slept", 0, 0));
	EXPECT(tell_peer(&peer, "test", 1, 0));
	end_with(&peer);
}

/* It fails, and the member has its contents. */
static void
expect_left_alone(struct peer *peer)
{
	expect_not_enough(peer);
	EXPECT(tell_peer(peer, "test", 1, 0));
	end_with(peer);
}

TEST(an_idle_member_without_may_sleep_is_left_alone)
{
	struct peer peer;

	share_device();
	peer = new_dozer("group_limit_mb:64,decay_ms:40,handle_mb:2");
	expect_left_alone(&peer);
}

TEST(a_member_that_was_used_lately_is_left_alone)
{
	struct peer peer;

	share_device();
	peer = new_dozer("group_limit_mb:64,may_sleep:True,decay_ms:60000,"
			 "handle_mb:2");
	expect_left_alone(&peer);
}

TEST(a_member_that_launches_and_requests_nothing_is_left_alone)
{
	struct peer peer;

	share_device();
	peer = new_dozer("group_limit_mb:64,may_sleep:True,decay_ms:3000,"
			 "handle_mb:2");
	/* Its latest request becomes older than that, its launch does not. */
	sleep(4);
	EXPECT(tell_peer(&peer, "fill", 1, 0));
	expect_left_alone(&peer);
}

TEST(a_member_with_work_in_flight_refuses)
{
	struct peer peer;

	share_device();
	peer = new_dozer("group_limit_mb:64," DOZES);
	EXPECT(tell_peer(&peer, "busy", 0, 3600 * 1000));
	usleep(IDLE_US);
	expect_not_enough(&peer);
	end_with(&peer);
}

TEST(a_member_in_a_capture_refuses)
{
	struct peer peer;

	share_device();
	peer = new_dozer("group_limit_mb:64," DOZES);
	EXPECT(tell_peer(&peer, "begin", 0, 0));
	usleep(IDLE_US);
	expect_not_enough(&peer);
	EXPECT(tell_peer(&peer, "end", 0, 0));
	EXPECT(tell_peer(&peer, "test", 1, 0));
	end_with(&peer);
}

TEST(a_member_within_its_guarantee_does_not_sleep_for_others)
{
	struct peer peer;

	share_device();
	peer = new_dozer("group_limit_mb:64,group_guarantee_mb:40," DOZES);
	expect_left_alone(&peer);
}

/* 6 of its 40 MiB are beyond the guarantee. */
TEST(nobody_sleeps_if_that_would_not_be_enough)
{
	struct peer peer;

	share_device();
	peer = new_dozer("group_limit_mb:64,group_guarantee_mb:34," DOZES);
	expect_left_alone(&peer);
}

TEST(a_member_wakes_within_its_guarantee_and_keeps_it_asleep)
{
	struct peer peer;

	share_device();
	peer = new_dozer("group_limit_mb:64,group_guarantee_mb:20," DOZES);
	join_idle();
	void *block = take(40 * MIB, NULL);
	EXPECT(tell_peer(&peer, "slept", 0, 0));
	/* Its 20 MiB are reserved. */
	EXPECT_NO_MEMORY(weir_malloc(10 * MIB, NULL), WEIR_ENOMEM);
	give(block);
	EXPECT(tell_peer(&peer, "test", 1, 0));
	end_with(&peer);
}

/* Two members hold 30 MiB each, and have been idle. The second was used last.
 */
static void
new_idle_pair(struct peer pair[2], const char *first, const char *second)
{
	pair[0] = new_peer(first);
	pair[1] = new_peer(second);
	for (int i = 0; i < 2; i++) {
		EXPECT(tell_peer(&pair[i], "take", 1, 30));
		EXPECT(tell_peer(&pair[i], "fill", 1, 0));
		usleep(IDLE_US);
	}
	usleep(IDLE_US);
}

/* A request that one of them can serve has this one sleep. */
static void
expect_sleeps_alone(struct peer pair[2], int sleeper)
{
	join_idle();
	take(20 * MIB, NULL);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(tell_peer(&pair[i], "slept", 0, 0), i == sleeper);
	kill_peer(&pair[0]);
	end_with(&pair[1]);
}

TEST(the_longest_unused_member_sleeps_first)
{
	struct peer pair[2];

	share_device();
	new_idle_pair(pair, "group_limit_mb:64," DOZES, DOZES);
	expect_sleeps_alone(pair, 0);
}

TEST(the_member_of_the_lowest_priority_sleeps_first)
{
	struct peer pair[2];

	share_device();
	new_idle_pair(pair, "group_limit_mb:64,group_priority:5," DOZES,
	    "group_priority:1," DOZES);
	expect_sleeps_alone(pair, 1);
}

TEST(a_member_that_the_user_put_to_sleep_does_not_wake_by_itself)
{
	struct peer peer;

	share_device();
	peer = new_dozer("group_limit_mb:64," DOZES);
	give(send_to_sleep(&peer));
	EXPECT(tell_peer(&peer, "sleep", 0, 0));
	expect_state(LEDGER_ASLEEP);
	/* The thread that puts it to sleep has an error in place of a wait. */
	EXPECT(!tell_peer(&peer, "take", 2, 2));
	EXPECT(tell_peer(&peer, "slept", 0, 0));
	EXPECT(tell_peer(&peer, "wake", 0, 0));
	EXPECT(tell_peer(&peer, "test", 1, 0));
	end_with(&peer);
}

TEST(a_request_that_cannot_wake_its_member_fails_and_can_be_repeated)
{
	struct peer peer;

	share_device();
	peer = new_dozer("group_limit_mb:64,wait_ms:50," DOZES);
	void *block = send_to_sleep(&peer);
	EXPECT(!tell_peer(&peer, "take", 2, 2));
	EXPECT(tell_peer(&peer, "slept", 0, 0));
	give(block);
	EXPECT(tell_peer(&peer, "take", 2, 2));
	EXPECT(tell_peer(&peer, "test", 1, 0));
	end_with(&peer);
}

TEST(a_launch_waits_for_memory_and_for_longer_than_a_request)
{
	struct peer peer;

	share_device();
	peer = new_dozer("group_limit_mb:64," DOZES);
	void *block = send_to_sleep(&peer);
	tell_peer_only(&peer, "test", 1, 0);
	usleep(300 * 1000);
	give(block);
	EXPECT_OK(weir_trim(0, 0, NULL));
	EXPECT(await_peer(&peer));
	end_with(&peer);
}

TEST(two_members_that_ask_at_once_are_both_served)
{
	struct peer sleeper;
	struct peer asker;

	share_device();
	sleeper = new_dozer("group_limit_mb:64," DOZES);
	asker = new_peer(PATIENT);
	join_idle();
	tell_peer_only(&asker, "take", 1, 30);
	take(28 * MIB, NULL);
	EXPECT(await_peer(&asker));
	EXPECT(tell_peer(&sleeper, "slept", 0, 0));
	EXPECT_NULL(ledger_fault(ledger_here()->ledger));
	kill_peer(&asker);
	kill_peer(&sleeper);
	drop_device();
}

/* ---- Deaths ------------------------------------------------------------- */

/* Kill a process after a while. */
static pid_t
kill_later(pid_t pid, unsigned us)
{
	pid_t killer;

	fflush(NULL);
	killer = fork();
	if (killer == 0) {
		usleep(us);
		kill(pid, SIGKILL);
		_exit(0);
	}
	return killer;
}

TEST_TIMEOUT(a_member_that_is_killed_while_it_falls_asleep_loses_its_lease, 120)
{
	/* Fork what is needed before this process calls the driver. */
	enum { TIMES = 12 };
	struct peer peers[TIMES];

	share_device();
	for (int i = 0; i < TIMES; i++)
		peers[i] = new_peer("group_limit_mb:64," DOZES);
	join_with("lend_ms:20000,wait_ms:20000,handle_mb:2");
	for (int i = 0; i < TIMES; i++) {
		EXPECT(tell_peer(&peers[i], "take", 1, 40));
		usleep(IDLE_US);
		pid_t killer = kill_later(peers[i].pid, 300 * (unsigned)i);
		give(take(50 * MIB, NULL));
		EXPECT_EQ(waitpid(killer, NULL, 0), killer);
		kill_peer(&peers[i]);
		EXPECT_OK(weir_trim(0, 0, NULL));
	}
	ledger_empty_dead(ledger_here());
	EXPECT_EQ(ledger_charged(ledger_here()->ledger), own_lease());
	EXPECT_NULL(ledger_fault(ledger_here()->ledger));
	drop_device();
}

TEST_TIMEOUT(a_member_whose_asker_is_killed_wakes_with_its_contents, 120)
{
	enum { TIMES = 12 };
	struct peer sleeper;
	struct peer askers[TIMES];

	share_device();
	sleeper = new_dozer("group_limit_mb:64," DOZES);
	for (int i = 0; i < TIMES; i++)
		askers[i] = new_peer(PATIENT);
	join_with("handle_mb:2,lend_ms:1000");
	for (int i = 0; i < TIMES; i++) {
		tell_peer_only(&askers[i], "take", 1, 50);
		usleep(300 * (unsigned)i);
		kill_peer(&askers[i]);
		EXPECT(tell_peer(&sleeper, "test", 1, 0));
		usleep(IDLE_US);
	}
	give(take(2 * MIB, NULL));
	ledger_empty_dead(ledger_here());
	EXPECT_LE(ledger_charged(ledger_here()->ledger), 64 * MIB);
	EXPECT_NULL(ledger_fault(ledger_here()->ledger));
	kill_peer(&sleeper);
	drop_device();
}

TEST(a_stopped_member_that_may_sleep_delays_a_request_by_lend_ms)
{
	struct peer peer;
	uint64_t began_ns;

	share_device();
	peer = new_dozer("group_limit_mb:64," DOZES);
	kill(peer.pid, SIGSTOP);
	join_with("lend_ms:200,handle_mb:2");
	began_ns = os_monotonic_ns();
	EXPECT_NO_MEMORY(weir_malloc(50 * MIB, NULL), WEIR_ENOMEM);
	EXPECT_LE(os_monotonic_ns() - began_ns, 4 * UINT64_C(1000000000));
	kill(peer.pid, SIGCONT);
	/* What was asked for is over. */
	EXPECT(!tell_peer(&peer, "slept", 0, 0));
	end_with(&peer);
}

/* ---- The end of a process ----------------------------------------------- */

TEST(a_process_ends_at_once_though_its_ledger_was_removed)
{
	struct peer peer;
	uint64_t began_ns;
	int status;

	share_device();
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		join_with("group_limit_mb:64,decay_ms:60000");
		take(2 * MIB, NULL);
		drop_device();
		exit(0);
	}
	peer.pid = pid;
	began_ns = os_monotonic_ns();
	EXPECT_EQ(waitpid(peer.pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	EXPECT_LE(os_monotonic_ns() - began_ns, 4 * UINT64_C(1000000000));
}
