/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef TRACE_TUNING_H
#define TRACE_TUNING_H

/* The deepest nesting of compile contexts on a thread. */
enum { HISTORY_CONTEXTS = 64 };

/* Events that the ring has room for beside those that are asked for. */
enum { HISTORY_RING_SPARE = 1024 };

/* C frames in a stack that also has Python frames. */
enum { HISTORY_C_FRAMES = 40 };

/* Connections that wait to be accepted. */
enum { MEETING_WAITING = 8 };

/* Observers of a process. */
enum { OBSERVERS_MAX = 64 };

/* Bytes of the text of a way and its work. */
enum { SERVED_TEXT = 160 };

#endif
