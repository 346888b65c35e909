/*
 * Reports of processes that have ended without writing them.
 */
#ifndef TOOLS_WEIR_READING_LAST_REPORT_H
#define TOOLS_WEIR_READING_LAST_REPORT_H

#include <sys/types.h>

/*
 * Write the reports of the processes of a ledger that have ended without
 * writing them, to the place that WEIR_REPORT names. Processes that still run
 * write their own reports.
 *
 * @param fd       the ledger: the descriptor that ledger_make() returned
 * @param program  the process that the caller waited for
 * @param status   its status from waitpid()
 */
void last_reports(int fd, pid_t program, int status);

#endif
