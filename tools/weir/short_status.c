/*
 * The status with which this process ends when it is short of host memory. It
 * is apart from memory_gate.c, because that is in the command only.
 */
#include "tools/weir/tool.h"

int tool_short_status = TOOL_FAILED;
