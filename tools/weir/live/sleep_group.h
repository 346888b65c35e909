/*
 * weir sleep GROUP and weir wake GROUP.
 */
#ifndef TOOLS_WEIR_LIVE_SLEEP_GROUP_H
#define TOOLS_WEIR_LIVE_SLEEP_GROUP_H

#include <stdbool.h>

struct group_change {
	const char *group;
	const char *folder; /* NULL: the default one */
	const char *value;  /* of sleep.state, with flags, for each member */
	bool asleep;        /* what it asks for */
	bool json;
};

/*
 * Ask all members to sleep or to wake, and print a line for each.
 *
 * @return TOOL_DONE if all did, TOOL_FOUND if one did not, with a complaint for
 *         each such; TOOL_FAILED if there is no such group, or on other trouble
 */
int sleep_group(const struct group_change *change);

#endif
