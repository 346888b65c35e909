/*
 * The numbers of this room that were chosen and can be chosen otherwise.
 */
#ifndef ALLOCATOR_LEND_TUNING_H
#define ALLOCATOR_LEND_TUNING_H

/* Milliseconds for which a request that waits in the queue sleeps, unless
 * memory is given back before: after that it looks for members that have died,
 * and asks the others again. */
enum { QUEUE_NAP_MS = 20 };

/* Milliseconds between two looks of the lending thread where `decay_ms` is off,
 * or is longer than this times DECAY_STEPS. It counts idle memory for `weir
 * group` then. */
enum { LENDER_NAP_MS = 5000 };

/* Milliseconds for which a request waits for a member that is falling asleep,
 * beyond `lend_ms`: a sleep copies 40 GB in a second. A member that was stopped
 * meanwhile delays a request by no more. */
enum { DOZE_END_MS = 5000 };

/* Seconds that the end of a process waits for the lending thread, which may be
 * in a call of the driver. */
enum { LENDER_END_S = 5 };

#endif
