/*
 * Sleep and wake of a group's members.
 *
 * Members fall asleep at the same time: each first waits for its own work in
 * flight, and one that is stopped must not keep the others awake.
 *
 * Members wake at the same time only if they share no device. Of those that
 * share one, the member with the highest priority wakes first, and the next one
 * begins when the first has ended. So if memory lacks for all of them, the most
 * important ones have it, and the link to the device is no slower for that.
 */
#include "tools/weir/live/sleep_group.h"

#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/weir/live/ledgers.h"
#include "tools/weir/live/sleep_answer.h"
#include "tools/weir/live/watch_link.h"
#include "tools/weir/progress.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"

/* How far a member has come. */
enum progress_of { NOT_ASKED, ASKED, CHANGED, ENDED, REFUSED };

struct turn {
	const struct group_member *member;
	enum progress_of progress;
	bool sent;
	int fd;
	int64_t end_ms; /* when it counts as one that does not answer */
};

struct round {
	const struct group_change *change;
	struct watch_ctl_request request;
	struct turn *turns;
	struct pollfd *polled; /* as many */
	size_t count;
	json_t *members; /* NULL: lines are printed */
};

/* ---- Printing ----------------------------------------------------------- */

static void
print_part(const char *before, uint64_t bytes, const char *after)
{
	char text[32];

	printf(
	    "%s%s%s", before, bytes_format(bytes, text, sizeof(text)), after);
}

static void
print_changed(const struct round *round, const struct watch_ctl_reply *reply)
{
	bool asleep = round->change->asleep;
	uint64_t ns = sleep_number(reply, asleep ? "asleep_ns" : "awake_ns");

	print_part(asleep ? "given back " : "mapped ",
	    sleep_number(reply, asleep ? "freed" : "mapped"), "");
	print_part(asleep ? ", copied " : ", copied back ",
	    sleep_number(reply, asleep ? "copied" : "restored"), "");
	for (const struct sleep_reason *reason = sleep_reasons;
	     asleep && reason->name != NULL; reason++) {
		uint64_t bytes = sleep_number(reply, reason->name);

		if (bytes == 0)
			continue;
		print_part(", stays ", bytes, "");
		printf(" (%s)", reason->text);
	}
	printf(", %.1f ms\n", (double)ns / 1e6);
}

/* Print a member that has changed (`reply`), has ended, or has not changed
 * (`fault`). */
static void
show_turn(const struct round *round, const struct turn *turn,
    const struct watch_ctl_reply *reply, const char *fault)
{
	const struct group_member *member = turn->member;
	json_t *object;

	if (round->members != NULL) {
		object = json_pack("{si so sb}", "pid", (int)member->pid,
		    "program", json_of_text(member->program), "ended",
		    turn->progress == ENDED);
		if (reply != NULL)
			sleep_add_json(object, reply);
		if (fault != NULL)
			json_object_set_new(
			    object, "refused", json_of_text(fault));
		json_array_append_new(round->members, object);
	}
	if (fault != NULL)
		complain("process %ld (%s): %s", (long)member->pid,
		    member->program, fault);
	if (round->members != NULL || fault != NULL)
		return;
	printf("%ld %s: ", (long)member->pid, member->program);
	if (reply != NULL)
		print_changed(round, reply);
	else
		puts("has ended");
	fflush(stdout);
}

/* ---- One member --------------------------------------------------------- */

static void
end_turn(struct round *round, struct turn *turn, enum progress_of progress,
    const struct watch_ctl_reply *reply, const char *fault)
{
	if (turn->fd >= 0)
		close(turn->fd);
	turn->fd = -1;
	turn->progress = progress;
	show_turn(round, turn, reply, fault);
}

/* Does the process itself say that it is a member of the group? */
static bool
is_member(int fd, const char *group)
{
	static struct watch_ctl_reply reply;
	const struct watch_ctl_request request = { .magic = WATCH_MAGIC,
		.version = WATCH_VERSION,
		.kind = WATCH_LIST,
		.path = "option.group" };
	bool sent = watch_send_values(fd, &request);

	return watch_receive_values(fd, &request, sent, &reply) ==
	    WATCH_ANSWERED &&
	    reply.row_count == 1 && strcmp(reply.rows[0].text, group) == 0;
}

static void
begin_turn(struct round *round, struct turn *turn)
{
	const struct group_member *member = turn->member;
	char why[WATCH_TEXT];

	if (member->foreign) {
		end_turn(round, turn, REFUSED, NULL,
		    "it is in another container (PID namespace): ask it there");
		return;
	}
	if (!watch_connect(member->pid, WATCH_ANSWER_MS, &turn->fd, why)) {
		turn->fd = -1;
		end_turn(round, turn, REFUSED, NULL, why);
		return;
	}
	if (member->several && !is_member(turn->fd, round->change->group)) {
		end_turn(round, turn, REFUSED, NULL,
		    "it does not say that it is a member");
		return;
	}
	turn->sent = watch_send_values(turn->fd, &round->request);
	turn->end_ms = progress_clock_ms() + SLEEP_ANSWER_MS;
	turn->progress = ASKED;
}

/* Read the answer of a member, which has come. */
static void
finish_turn(struct round *round, struct turn *turn)
{
	static struct watch_ctl_reply reply;
	const struct watch_ctl_request list = sleep_list_request();
	enum watch_answer answer =
	    watch_receive_values(turn->fd, &round->request, turn->sent, NULL);

	if (answer == WATCH_ANSWERED) {
		bool sent = watch_send_values(turn->fd, &list);

		answer = watch_receive_values(turn->fd, &list, sent, &reply);
	}
	if (answer == WATCH_ANSWERED)
		end_turn(round, turn, CHANGED, &reply, NULL);
	else if (answer == WATCH_ENDED)
		end_turn(round, turn, ENDED, NULL, NULL);
	else
		end_turn(round, turn, REFUSED, NULL, watch_values_fault());
}

/* ---- All members -------------------------------------------------------- */

/* Ask those whose turn it is. */
static void
begin_turns(struct round *round)
{
	uint64_t busy = 0; /* ledgers of members that wake, or come first */

	for (size_t i = 0; i < round->count; i++) {
		struct turn *turn = &round->turns[i];
		uint64_t ledgers =
		    round->change->asleep ? 0 : turn->member->ledgers;

		if (turn->progress == NOT_ASKED && (busy & ledgers) == 0)
			begin_turn(round, turn);
		if (turn->progress == NOT_ASKED || turn->progress == ASKED)
			busy |= ledgers;
	}
}

/* Wait until a member answers or its time is over. Returns the number of those
 * that were asked. */
static size_t
wait_for_turns(struct round *round)
{
	int64_t wait_ms = SLEEP_ANSWER_MS;
	size_t asked = 0;

	for (size_t i = 0; i < round->count; i++) {
		const struct turn *turn = &round->turns[i];
		int64_t left_ms = turn->end_ms - progress_clock_ms();

		round->polled[i] =
		    (struct pollfd){ .fd = turn->fd, .events = POLLIN };
		if (turn->progress != ASKED)
			continue;
		asked++;
		if (left_ms < wait_ms)
			wait_ms = left_ms;
	}
	if (asked > 0)
		poll(round->polled, round->count,
		    (int)(wait_ms > 0 ? wait_ms : 0));
	return asked;
}

static void
ask_members(struct round *round)
{
	for (;;) {
		begin_turns(round);
		if (wait_for_turns(round) == 0)
			return;
		for (size_t i = 0; i < round->count; i++) {
			struct turn *turn = &round->turns[i];

			if (turn->progress != ASKED)
				continue;
			if (round->polled[i].revents != 0)
				finish_turn(round, turn);
			else if (progress_clock_ms() >= turn->end_ms)
				end_turn(round, turn, REFUSED, NULL,
				    "it does not answer");
		}
	}
}

/* Ask members, and print what they have done. */
static int
change_members(const struct group_change *change,
    const struct group_member *members, size_t count)
{
	struct round round = { .change = change,
		.request = sleep_change_request(change->value),
		.turns = calloc(count + 1, sizeof(struct turn)),
		.polled = calloc(count + 1, sizeof(struct pollfd)),
		.count = count,
		.members = change->json ? json_array() : NULL };
	int result = TOOL_FAILED;

	if (round.turns == NULL || round.polled == NULL) {
		complain("cannot ask the members: out of memory");
		goto drop;
	}
	for (size_t i = 0; i < count; i++)
		round.turns[i] =
		    (struct turn){ .member = &members[i], .fd = -1 };
	ask_members(&round);
	result = TOOL_DONE;
	for (size_t i = 0; i < count; i++)
		if (round.turns[i].progress == REFUSED)
			result = TOOL_FOUND;
	if (change->json) {
		json_t *object =
		    json_pack("{si ss sO}", "format_version", JSON_VERSION,
			"group", change->group, "members", round.members);

		if (!json_print(object, JSON_INDENT(2), stdout))
			result = TOOL_FAILED;
		putchar('\n');
		json_decref(object);
	}

drop:
	json_decref(round.members);
	free(round.polled);
	free(round.turns);
	return result;
}

int
sleep_group(const struct group_change *change)
{
	struct found_ledger *list;
	struct group_member *members = NULL;
	size_t count;
	int result = TOOL_FAILED;

	if (!ledgers_open(change->folder, change->group, &list, NULL))
		return TOOL_FAILED;
	if (list == NULL)
		complain("no group %s", change->group);
	else if (!ledgers_members(list, &members, &count))
		complain("cannot find the members: out of memory");
	else
		result = change_members(change, members, count);
	free(members);
	ledgers_close(list);
	return result;
}
