/*
 * Reports of processes that have ended without writing them.
 */
#ifndef TOOLS_WEIR_LAST_REPORT_H
#define TOOLS_WEIR_LAST_REPORT_H

#include <sys/types.h>

/*
 * Write the reports that processes in a ledger have left unwritten, where
 * WEIR_REPORT says. Processes that still run write their own.
 *
 * @param fd       the ledger: the descriptor of ledger_make()
 * @param program  the process that was waited for, and its status of waitpid()
 */
void last_reports(int fd, pid_t program, int status);

#endif
