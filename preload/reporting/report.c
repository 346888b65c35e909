/*
 * The report: the program's requests, and how weir served them.
 *
 * WEIR_REPORT=FILE writes it as JSON when the program ends, WEIR_REPORT=- as
 * text to stderr. "%p" in FILE is replaced by the process ID, because children
 * inherit the variable. A process that never called the driver writes nothing.
 * Without WEIR_REPORT nothing is counted.
 */

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "allocator/allocator.h"
#include "base/log.h"
#include "base/os.h"
#include "base/status.h"
#include "driver/driver.h"
#include "preload/reporting/tally.h"

/* ---- Writing ----------------------------------------------------------- */

/* Reads memory only, and makes no driver call: the driver may have ended. Makes
 * no system call either if `weir run` writes the report: the program may have
 * forbidden itself any. */
__attribute__((destructor)) static void
write_report(void)
{
	static struct report report;
	struct ledger_process *process = tally_process();
	bool own = false;

	if (os_forked() || !report_wanted())
		return;
	report_publish();
	ledger_set(&process->barriers, (int64_t)watch_barriers());
	bool called = ledger_report(tally_ledger(), process, &report);
	/* A program may have called weir directly, and no hook. */
	if (called || driver_peek() != NULL)
		own = library_report(&report);
	if (!called && !report.library)
		return;
	if (!own && !sites_wanted() &&
	    tally_is_promised(report_destination())) {
		atomic_store(&process->ended, true);
		return;
	}
	report.program = program_invocation_name;
	report.pid = getpid();
	report.describe = sites_describe;
	report.leaks = sites_leaks();
	report.top = sites_top();
	if (report_write(report_destination(), &report) != WEIR_OK)
		log_write(LOG_ERROR, "WEIR_REPORT: %s", status_latest_text());
	atomic_store(&process->reported, true);
	free(report.leaks);
	free(report.top);
}
