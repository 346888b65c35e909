/*
 * The page of a running process, served on this machine.
 */
#ifndef TOOLS_WEIR_LIVE_LIVE_PAGE_H
#define TOOLS_WEIR_LIVE_LIVE_PAGE_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Serve the page of a process that can be watched, until the process ends. The
 * address is printed. It has a token that only the user knows: requests without
 * it are refused, and find out nothing.
 *
 * @param opened  called with the address before it is served; NULL: not
 * @return an enum tool_exit
 */
int live_page_serve(pid_t pid, void (*opened)(const char *address));

#endif
