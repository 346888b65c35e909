/*
 * The numbers of the options that were chosen and can be chosen otherwise.
 */
#ifndef ALLOCATOR_OPTIONS_TUNING_H
#define ALLOCATOR_OPTIONS_TUNING_H

/* Bytes of a zone of `guard`, at most. */
enum { GUARD_MAX = 1 << 20 };

/* The number of different sets of values that a process may put in force: 3.1
 * KB each, less than 14 MiB in all. To find out when the last reader of a set
 * is gone would cost each request that no cache serves. */
enum { SETS_MAX = 4096 };

#endif
