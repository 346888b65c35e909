/*
 * Any trace that can be read is replayed on the simulated device: weir_check()
 * finds no fault, and no word of a block is changed by another.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tools/weir/replay/player.h"

/* The process that replays must not have used weir before. */
static void
play_in_child(const struct trace *trace)
{
	const struct play_choices choices = { .limit_bytes = UINT64_MAX,
		.speed = 1000,
		.check = true,
		.touch = true };
	struct figures figures = { 0 };
	int status;
	pid_t child = fork();

	if (child == 0) {
		alarm(20);
		bool played = play(trace, &choices, &figures);
		_exit(
		    played && (figures.mismatches != 0 || figures.faults != 0) ?
			3 :
			0);
	}
	/* libFuzzer's clock is a signal, which interrupts waits. */
	while (waitpid(child, &status, 0) != child)
		fuzz_expect(errno == EINTR, "waitpid");
	fuzz_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "playing");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace_error error = { "" };
	struct trace trace;

	if (!trace_read(fuzz_file(0, data, size), &trace, &error))
		return 0;
	/* Long traces are skipped: they find no more than short ones do. */
	if (trace.row_count < 200 && trace.end_us < 1000000)
		play_in_child(&trace);
	trace_drop(&trace);
	return 0;
}
