/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef DRIVER_TUNING_H
#define DRIVER_TUNING_H

/* Bytes of a call that an error shows. A longer one is cut, because a thread's
 * stack may have only 16 KiB. */
enum { CALL_SHOWN = 320 };

#endif
