/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef TOOLS_REPORT_TUNING_H
#define TOOLS_REPORT_TUNING_H

/* Streams of a report. The last one counts all further streams. */
enum { REPORT_STREAMS = 64 };

/* Entry points of the driver that the text lists. */
enum { REPORT_CALLS_SHOWN = 5 };

/* Milliseconds between two tries to open a pipe that nobody reads yet. */
enum { REPORT_OPEN_STEP_MS = 10 };

#endif
