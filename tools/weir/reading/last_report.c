/*
 * Reports of processes that have ended without writing them.
 *
 * Other processes have written the ledger, so that no text in it is trusted:
 * this file cuts names to their length and ends them. Sums may be wrong, which
 * does no harm.
 */
#include "tools/weir/reading/last_report.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/process.h"
#include "tools/report/ledger.h"
#include "tools/weir/tool.h"

/* True if a process runs. A zombie does not run. A process that this one may
 * not inspect counts as running. */
static bool
is_running(pid_t pid)
{
	struct process_stat stat;

	if (kill(pid, 0) != 0 && errno == ESRCH)
		return false;
	int code = process_read((uint64_t)pid, &stat);
	return code == 0 ? stat.state != 'Z' : code != ENOENT && code != ESRCH;
}

static void
set_end(struct report *report, bool ended, bool is_program, int status)
{
	report->end = ended ? REPORT_EXIT : REPORT_LOST;
	if (is_program && WIFSIGNALED(status)) {
		report->end = REPORT_SIGNAL;
		report->code = WTERMSIG(status);
	} else if (!ended && is_program && WIFEXITED(status)) {
		report->end = REPORT_STATUS;
		report->code = WEXITSTATUS(status);
	}
}

/* True if the user asked for the stacks of blocks that are not freed. */
static bool
wants_leaks(void)
{
	const char *leaks = getenv("WEIR_REPORT_LEAKS");

	return leaks != NULL && *leaks != '\0' && strcmp(leaks, "0") != 0;
}

void
last_reports(int fd, pid_t program, int status)
{
	static struct report report;
	struct ledger *ledger = ledger_map(fd);
	const char *destination = getenv("WEIR_REPORT");

	if (ledger == NULL || destination == NULL)
		return;
	for (uint32_t i = 1; i < LEDGER_SLOTS; i++) {
		struct ledger_process *process = ledger_process(ledger, i);
		pid_t pid = ledger_owner(ledger, i);
		char name[sizeof(process->program)];

		if (process == NULL || atomic_load(&process->reported) ||
		    is_running(pid) || !ledger_report(ledger, process, &report))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)sizeof(name) - 1,
		    process->program);
		report.program = name;
		report.pid = pid;
		report.stacks_lost = wants_leaks();
		set_end(&report, atomic_load(&process->ended), pid == program,
		    status);
		if (report_write(destination, &report) != WEIR_OK)
			complain("%s", weir_last_error());
	}
}
