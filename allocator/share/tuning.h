/*
 * The numbers of this room that were chosen and can be chosen otherwise.
 */
#ifndef ALLOCATOR_SHARE_TUNING_H
#define ALLOCATOR_SHARE_TUNING_H

/* Processes of a group on a device, at most. A look at all of them reads some
 * cache lines of each, which is little beside a call that maps memory. */
enum { LEDGER_MEMBERS = 64 };

/* How often a claim that met the claims of others is made again before it
 * counts as refused. A claim lasts a few microseconds; a process that was
 * stopped in one would otherwise hold up all others. */
enum { CLAIM_TRIES = 16 };
/* Microseconds between two tries, times the try and the member's number, so
 * that two members do not meet again and again. */
enum { CLAIM_PAUSE_US = 20 };

/* Milliseconds to wait for another process that changes a ledger's settings or
 * makes it, which takes some microseconds. */
enum { SETTER_WAIT_MS = 1000 };

/* Milliseconds after which the memory of a dead process counts as gone, if the
 * process is of another PID namespace and cannot be looked at. A driver frees
 * the memory of a process within some 100 ms. */
enum { FOREIGN_DEATH_MS = 2000 };

#endif
