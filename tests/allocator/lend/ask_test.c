/*
 * Memory that members of a group lend each other, and the queue for it.
 */
#include "allocator/lend/ask.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allocator/memory/arena.h"
#include "base/os.h"
#include "tests/support/device.h"
#include "tests/support/peers.h"

/* Let a member hold memory that it does not use. */
static void
hold_unused(struct peer *peer, size_t mib)
{
	EXPECT(tell_peer(peer, "take", 0, mib));
	EXPECT(tell_peer(peer, "give", 0, 0));
}

TEST(unused_memory_of_a_member_serves_another_one)
{
	struct peer peer;

	share_device();
	peer = new_peer("group_limit_mb:64");
	hold_unused(&peer, 60);
	join_with("lend_ms:10000");
	take(50 * MIB, NULL);
	EXPECT_LE(ledger_charged(ledger_here()->ledger), 64 * MIB);
	/* It has given only what was needed. */
	EXPECT(tell_peer(&peer, "take", 1, 14));
	kill_peer(&peer);
	drop_device();
}

/* Its stream is never idle, so that only fences tell what is complete; and it
 * uses and frees a part of that memory all the time. */
TEST(unused_memory_of_a_busy_member_serves_another_one)
{
	struct peer peer;

	share_device();
	peer = new_peer("group_limit_mb:64");
	for (unsigned i = 0; i < 12; i++)
		EXPECT(tell_peer(&peer, "take", i, 4));
	for (unsigned i = 0; i < 12; i++)
		EXPECT(tell_peer(&peer, "give", i, 0));
	EXPECT(tell_peer(&peer, "train", 0, 40));
	usleep(200 * 1000);
	join_with("lend_ms:10000");
	take(40 * MIB, NULL);
	kill_peer(&peer);
	drop_device();
}

TEST(used_memory_of_a_member_is_not_taken)
{
	struct peer peer;

	share_device();
	peer = new_peer("group_limit_mb:64");
	EXPECT(tell_peer(&peer, "take", 1, 40));
	hold_unused(&peer, 20);
	join_with("lend_ms:1000");
	EXPECT_NO_MEMORY(weir_malloc(30 * MIB, NULL), WEIR_ENOMEM);
	take(20 * MIB, NULL);
	kill_peer(&peer);
	drop_device();
}

/* Between its refusal and its question another member's question was answered.
 */
TEST(a_request_is_tried_again_though_nobody_has_any_more_to_give)
{
	struct help help = { 0 };
	struct peer peer;

	share_device();
	peer = new_peer("group_limit_mb:64");
	EXPECT(tell_peer(&peer, "take", 1, 40));
	join_with("lend_ms:10000");
	give(take(2 * MIB, NULL));
	struct arena *arena = arena_peek(0);
	EXPECT_GT(member_lease(0, 50 * MIB), 0);
	EXPECT(!help_request(&help, arena, 50 * MIB));
	EXPECT_GT(member_lease(0, 50 * MIB), 0);
	EXPECT(tell_peer(&peer, "give", 1, 0));
	EXPECT(tell_peer(&peer, "trim", 0, 0));
	EXPECT(help_request(&help, arena, 50 * MIB));
	EXPECT_EQ(member_lease(0, 50 * MIB), 0);
	EXPECT(!help_request(&help, arena, 50 * MIB));
	help_end(&help, arena);
	kill_peer(&peer);
	drop_device();
}

TEST(without_lend_ms_nobody_is_asked)
{
	struct peer peer;

	share_device();
	peer = new_peer("group_limit_mb:64");
	hold_unused(&peer, 60);
	join_with("lend_ms:0");
	EXPECT_NO_MEMORY(weir_malloc(50 * MIB, NULL), WEIR_ENOMEM);
	kill_peer(&peer);
	drop_device();
}

TEST(the_member_of_the_lowest_priority_gives_first)
{
	struct peer first;
	struct peer last;

	share_device();
	last = new_peer("group_limit_mb:64,group_priority:200");
	hold_unused(&last, 30);
	first = new_peer("group_priority:50");
	hold_unused(&first, 30);
	join_with("lend_ms:10000");
	take(20 * MIB, NULL);
	struct ledger *ledger = ledger_here()->ledger;
	EXPECT_EQ(atomic_load(&ledger->slots[0].lease), 30 * MIB);
	EXPECT_LE(atomic_load(&ledger->slots[1].lease), 14 * MIB);
	kill_peer(&first);
	kill_peer(&last);
	drop_device();
}

TEST(unused_memory_within_a_guarantee_is_not_asked_for)
{
	struct peer peer;

	share_device();
	peer = new_peer("group_limit_mb:64,group_guarantee_mb:40");
	hold_unused(&peer, 40);
	join_with("");
	EXPECT_NO_MEMORY(weir_malloc(30 * MIB, NULL), WEIR_ENOMEM);
	EXPECT_EQ(atomic_load(&ledger_here()->ledger->slots[0].given), 0);
	kill_peer(&peer);
	drop_device();
}

TEST(a_stopped_member_delays_a_request_by_no_more_than_lend_ms)
{
	struct peer peer;
	uint64_t began_ns;

	share_device();
	peer = new_peer("group_limit_mb:64");
	hold_unused(&peer, 60);
	kill(peer.pid, SIGSTOP);
	join_with("lend_ms:200");
	take(2 * MIB, NULL);
	began_ns = os_monotonic_ns();
	EXPECT_NO_MEMORY(weir_malloc(50 * MIB, NULL), WEIR_ENOMEM);
	EXPECT_GE(os_monotonic_ns() - began_ns, 200 * 1000000);
	EXPECT_LE(os_monotonic_ns() - began_ns, 20 * UINT64_C(1000000000));
	kill_peer(&peer);
	drop_device();
}

/* The group allows more than the device has. */
TEST(a_full_device_is_a_reason_to_ask_too)
{
	struct peer peer;

	share_device();
	peer = new_peer("lend:True,group:none");
	hold_unused(&peer, 200);
	join_with("lend:True,group:none,lend_ms:10000");
	take(150 * MIB, NULL);
	kill_peer(&peer);
	drop_device();
}

TEST(memory_of_a_process_without_lend_is_its_own)
{
	struct peer peer;

	share_device();
	peer = new_peer("group:none");
	hold_unused(&peer, 200);
	join_with("lend:True,group:none");
	EXPECT_NO_MEMORY(weir_malloc(150 * MIB, NULL), WEIR_ENOMEM);
	kill_peer(&peer);
	drop_device();
}

/* Give block 1 back after a while, in another process. */
static pid_t
tell_later(struct peer *peer, unsigned ms)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		usleep(ms * 1000);
		EXPECT(tell_peer(peer, "give", 1, 0));
		_exit(0);
	}
	return pid;
}

TEST(a_request_waits_for_memory_that_a_member_frees)
{
	struct peer peer;
	pid_t later;

	share_device();
	peer = new_peer("group_limit_mb:64");
	EXPECT(tell_peer(&peer, "take", 1, 60));
	later = tell_later(&peer, 300);
	join_with("wait_ms:30000,lend_ms:10");
	take(50 * MIB, NULL);
	struct ledger_file *file = ledger_here();
	EXPECT_EQ(atomic_load(&file->ledger->slots[file->slot].since_ns), 0);
	EXPECT_NULL(ledger_fault(file->ledger));
	EXPECT_EQ(waitpid(later, NULL, 0), later);
	kill_peer(&peer);
	drop_device();
}

TEST(a_request_waits_for_the_end_of_a_member)
{
	struct peer peer;
	pid_t pid;

	share_device();
	peer = new_peer("group_limit_mb:64");
	EXPECT(tell_peer(&peer, "take", 1, 60));
	pid = fork();
	if (pid == 0) {
		usleep(200 * 1000);
		kill(peer.pid, SIGKILL);
		_exit(0);
	}
	join_with("wait_ms:30000,lend_ms:10");
	take(50 * MIB, NULL);
	EXPECT_EQ(waitpid(pid, NULL, 0), pid);
	kill_peer(&peer);
	drop_device();
}

TEST(a_wait_ends_with_the_error_and_leaves_the_queue)
{
	struct peer peer;

	share_device();
	peer = new_peer("group_limit_mb:64");
	EXPECT(tell_peer(&peer, "take", 1, 60));
	join_with("wait_ms:100,lend_ms:10");
	EXPECT_NO_MEMORY(weir_malloc(50 * MIB, NULL), WEIR_ENOMEM);
	EXPECT_NULL(ledger_fault(ledger_here()->ledger));
	EXPECT_STR_HAS(weir_last_error(), "Group g ");
	EXPECT_STR_HAS(weir_last_error(), "60.00 MiB");
	kill_peer(&peer);
	drop_device();
}

TEST(a_younger_request_does_not_pass_an_older_one_in_the_queue)
{
	struct peer peer;

	share_device();
	peer = new_peer("");
	join_with("group_limit_mb:64");
	take(20 * MIB, NULL);
	struct ledger_file *file = ledger_here();
	struct ledger_slot *slot = &file->ledger->slots[file->slot];
	/* This member waits for 40 of the 44 MiB that are free. */
	atomic_store(&slot->want, 40 * MIB);
	atomic_store(&slot->since_ns, 1);
	EXPECT(!tell_peer(&peer, "take", 0, 10));
	EXPECT(tell_peer(&peer, "take", 0, 4));
	atomic_store(&slot->since_ns, 0);
	EXPECT(tell_peer(&peer, "take", 1, 10));
	kill_peer(&peer);
	drop_device();
}
