/*
 * weir group: members, limits and guarantees of running programs.
 */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/support/command.h"
#include "tests/support/peers.h"
#include "tests/support/test.h"
#include "tests/tools/weir/strict_metrics.h"

/* A member in another process that holds 20 MiB, of a new group. */
static struct peer
begin_with_member(const char *options)
{
	share_device();
	struct peer peer = new_peer(options);
	EXPECT(tell_peer(&peer, "take", 0, 20));
	return peer;
}

/* This process and another one are members of a new group. This one holds
 * memory. */
static struct peer
begin_as_member(void)
{
	share_device();
	struct peer peer = new_peer("");
	join_with("group_limit_mb:64");
	EXPECT(weir_malloc(1 << 20, NULL) != NULL);
	return peer;
}

static void
end_with(struct peer *peer)
{
	kill_peer(peer);
	drop_device();
}

static void
expect_fault(const char *flag, const char *value, const char *err)
{
	struct command_result result = command_weir(
	    "group", "--folder", peers_folder, "g", flag, value, NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, err);
	command_free(&result);
}

static void
expect_set(const char *flag, const char *value)
{
	struct command_result result = command_weir(
	    "group", "--folder", peers_folder, "g", flag, value, NULL);

	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
}

/* The object of the first member. */
static json_t *
member_now(void)
{
	struct command_result result = command_weir(
	    "group", "g", "--json", "--folder", peers_folder, NULL);
	json_t *object = json_loads(result.out, 0, NULL);
	json_t *member;

	EXPECT_STR_EQ(result.err, "");
	EXPECT_NOT_NULL(object);
	member = json_array_get(
	    json_object_get(
		json_array_get(json_object_get(object, "ledgers"), 0),
		"members"),
	    0);
	EXPECT_NOT_NULL(member);
	json_incref(member);
	json_decref(object);
	command_free(&result);
	return member;
}

static long long
number_of(const char *key)
{
	json_t *member = member_now();
	long long number = json_integer_value(json_object_get(member, key));

	json_decref(member);
	return number;
}

TEST(members_of_a_group_are_printed_and_changed)
{
	struct peer peer =
	    begin_with_member("group_limit_mb:64,group_guarantee_mb:8");
	char word[64];
	char out[32];

	EXPECT(tell_peer(&peer, "take", 1, 10));
	EXPECT(tell_peer(&peer, "give", 1, 0));
	struct command_result result =
	    command_weir("group", "--folder", peers_folder, NULL);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_HAS(result.out, "group g, device ");
	EXPECT_STR_HAS(result.out, "limit 64.00 MiB");
	EXPECT_STR_HAS(result.out, "8.00 MiB");
	snprintf(out, sizeof(out), "%ld", (long)peer.pid);
	EXPECT_STR_HAS(result.out, out);
	command_free(&result);
	EXPECT_EQ(number_of("pid"), peer.pid);
	EXPECT_EQ(number_of("lease_bytes"), 30 << 20);
	EXPECT_EQ(number_of("idle_bytes"), 10 << 20);
	EXPECT_EQ(number_of("guarantee_bytes"), 8 << 20);

	snprintf(word, sizeof(word), "%ld=16M", (long)peer.pid);
	expect_set("--guarantee", word);
	EXPECT_EQ(number_of("guarantee_bytes"), 16 << 20);
	snprintf(word, sizeof(word), "%ld=7", (long)peer.pid);
	expect_set("--priority", word);
	EXPECT_EQ(number_of("priority"), 7);
	expect_set("--limit", "40M");
	EXPECT(!tell_peer(&peer, "take", 1, 30));
	expect_set("--limit", "96M");
	EXPECT(tell_peer(&peer, "take", 1, 60));
	end_with(&peer);
}

/* The metric of the only member, or of the group. */
static double
metric_now(const char *name)
{
	struct command_result result = command_weir(
	    "group", "g", "--metrics", "--folder", peers_folder, NULL);
	double value = strict_metrics_value(result.out, name, "group=\"g\"");

	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	EXPECT_NULL(strict_metrics_fault(result.out));
	command_free(&result);
	return value;
}

TEST(a_group_has_metrics)
{
	struct command_result result;
	struct peer peer =
	    begin_with_member("group_limit_mb:64,group_guarantee_mb:40,"
			      "group_priority:7");

	EXPECT(tell_peer(&peer, "take", 1, 10));
	EXPECT(tell_peer(&peer, "give", 1, 0));
	EXPECT_EQ(metric_now("weir_group_limit_bytes"), 64 << 20);
	EXPECT_EQ(metric_now("weir_group_held_bytes"), 30 << 20);
	EXPECT_EQ(metric_now("weir_group_charged_bytes"), 40 << 20);
	EXPECT_EQ(metric_now("weir_group_members"), 1);
	EXPECT_EQ(metric_now("weir_group_waiting_members"), 0);
	EXPECT_EQ(metric_now("weir_member_held_bytes"), 30 << 20);
	EXPECT_EQ(metric_now("weir_member_guarantee_bytes"), 40 << 20);
	EXPECT_EQ(metric_now("weir_member_idle_bytes"), 10 << 20);
	EXPECT_EQ(metric_now("weir_member_priority"), 7);
	EXPECT_EQ(metric_now("weir_member_waits_for_bytes"), 0);
	EXPECT_EQ(metric_now("weir_member_wait_nanoseconds"), 0);
	EXPECT_EQ(metric_now("weir_member_asleep"), 0);
	EXPECT_EQ(metric_now("weir_member_dozing"), 0);
	result = command_weir(
	    "group", "none", "--metrics", "--folder", peers_folder, NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, "no group none");
	command_free(&result);
	expect_fault("--metrics", "--json", "one of --json, --metrics");
	end_with(&peer);
}

/* Do the table, the object and the metrics show the only member's state? */
static void
expect_member_state(const char *state)
{
	struct command_result result =
	    command_weir("group", "g", "--folder", peers_folder, NULL);
	json_t *member = member_now();

	EXPECT_STR_HAS(result.out, state);
	EXPECT_STR_EQ(
	    json_string_value(json_object_get(member, "state")), state);
	EXPECT_EQ(
	    metric_now("weir_member_asleep"), strcmp(state, "awake") != 0);
	EXPECT_EQ(
	    metric_now("weir_member_dozing"), strcmp(state, "dozing") == 0);
	json_decref(member);
	command_free(&result);
}

TEST(a_member_is_awake_or_asleep)
{
	struct peer peer = begin_with_member("group_limit_mb:64");

	expect_member_state("awake");
	EXPECT(tell_peer(&peer, "sleep", 0, 0));
	expect_member_state("asleep");
	kill(peer.pid, SIGSTOP);
	expect_member_state("asleep");
	kill(peer.pid, SIGCONT);
	EXPECT(tell_peer(&peer, "wake", 0, 0));
	expect_member_state("awake");
	EXPECT(tell_peer(&peer, "sleep", 0, 0));
	kill_peer(&peer);
	/* The next member of its slot is awake. */
	peer = new_peer("");
	EXPECT(tell_peer(&peer, "take", 0, 20));
	expect_member_state("awake");
	end_with(&peer);
}

TEST(a_state_that_there_is_not_is_unknown_and_a_fault)
{
	struct command_result result;
	struct peer peer = begin_as_member();

	atomic_store(&ledger_own_slot(ledger_here())->state, 77);
	EXPECT_EQ(metric_now("weir_member_asleep"), -1);
	result = command_weir("group", "g", "--folder", peers_folder, NULL);
	EXPECT_STR_HAS(result.out, "unknown");
	command_free(&result);
	result =
	    command_weir("group", "--folder", peers_folder, "--check", NULL);
	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.out, "in a state that there is not");
	command_free(&result);
	end_with(&peer);
}

TEST(a_ledger_of_another_version_is_refused)
{
	struct command_result result;
	struct peer peer = begin_as_member();

	ledger_here()->ledger->version--;
	result = command_weir("group", "--folder", peers_folder, NULL);
	EXPECT_STR_HAS(result.err, "not a ledger of this version of weir");
	EXPECT_STR_EQ(result.out, "no groups\n");
	command_free(&result);
	end_with(&peer);
}

TEST(changes_that_cannot_be_are_refused_with_a_reason)
{
	struct peer peer = begin_with_member("group_limit_mb:64");
	char word[64];

	expect_fault("--limit", "10M", "10.00 MiB too much");
	expect_fault("--limit", "ten", "not a size");
	expect_fault("--guarantee", "1=4M", "is no member of group g");
	expect_fault("--guarantee", "4M", "not PID=VALUE");
	snprintf(word, sizeof(word), "%ld=80M", (long)peer.pid);
	expect_fault("--guarantee", word, "is not possible");
	end_with(&peer);
}

TEST(a_killed_member_is_not_listed_and_the_ledger_is_consistent)
{
	struct peer peer =
	    begin_with_member("group_limit_mb:64,group_guarantee_mb:8");

	kill_peer(&peer);
	struct command_result result =
	    command_weir("group", "--folder", peers_folder, "--json", NULL);
	EXPECT_STR_HAS(result.out, "\"members\": []");
	EXPECT_STR_HAS(result.out, "\"charged_bytes\": 0");
	command_free(&result);
	result =
	    command_weir("group", "--folder", peers_folder, "--check", NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out, "group g: consistent\n");
	command_free(&result);
	drop_device();
}

TEST(a_fault_of_a_ledger_is_found)
{
	struct peer peer = begin_as_member();

	atomic_store(&ledger_here()->ledger->slots[5].lease, 1 << 20);
	struct command_result result =
	    command_weir("group", "--folder", peers_folder, "--check", NULL);
	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.out, "a slot without a member has a charge");
	command_free(&result);
	end_with(&peer);
}

/* A copy of a ledger, such as one to look at later, is no second group. */
TEST(a_ledger_under_another_name_is_left_out)
{
	char command[256];
	struct peer peer = begin_with_member("group_limit_mb:64");

	snprintf(command, sizeof(command),
	    "cd %s && for i in g.*; do cp \"$i\" \"h$i\"; done", peers_folder);
	EXPECT_EQ(system(command), 0);
	struct command_result result =
	    command_weir("group", "--folder", peers_folder, "--check", NULL);
	EXPECT_EQ(result.status, 1);
	EXPECT_STR_EQ(result.out, "group g: consistent\n");
	EXPECT_STR_HAS(result.err, "the ledger of another group or device");
	command_free(&result);
	result = command_weir(
	    "group", "--folder", peers_folder, "--check", "g", NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
	end_with(&peer);
}

TEST(a_ledger_that_was_overwritten_is_a_fault)
{
	char command[256];

	share_device();
	join_with("group_limit_mb:64");
	EXPECT(weir_malloc(1 << 20, NULL) != NULL);
	snprintf(command, sizeof(command),
	    "cd %s && for i in g.*; do head -c 4096 /dev/zero | "
	    "dd of=\"$i\" conv=notrunc status=none; done",
	    peers_folder);
	EXPECT_EQ(system(command), 0);
	for (int i = 0; i < 2; i++) {
		struct command_result result = command_weir("group", "--folder",
		    peers_folder, "--check", i == 0 ? "g" : NULL, NULL);

		EXPECT_EQ(result.status, 1);
		EXPECT_STR_HAS(result.err, "it is not a ledger");
		command_free(&result);
	}
	drop_device();
}

TEST(without_ledgers_there_are_no_groups)
{
	share_device();
	struct command_result result =
	    command_weir("group", "--folder", peers_folder, NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out, "no groups\n");
	command_free(&result);
	expect_fault("--limit", "10M", "no group g");
	result = command_weir(
	    "group", "--folder", peers_folder, "--check", "typo", NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "no group typo");
	command_free(&result);
	drop_device();
}
