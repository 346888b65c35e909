/*
 * The limit on the memory for reading a file.
 *
 * Note [The budget of a reader]
 *
 * A small file from an unknown source may ask for much memory: it may be
 * compressed, or made of operations that need more memory than they have bytes.
 * So the limit depends on the file's size. It is the least of:
 *
 *	256 MiB plus 256 bytes for each stored byte of the file
 *	64 MiB plus 64 bytes for each decompressed byte
 *	half of the machine's memory
 *
 * A snapshot written by PyTorch needs two bytes for each decompressed byte, and
 * forty to eighty for each byte stored by xz. The work is proportional to
 * memory and bytes, so the time is bounded too. A limit set by the user
 * replaces these three.
 */
#ifndef SNAPSHOT_BUDGET_H
#define SNAPSHOT_BUDGET_H

#include <stdint.h>

#include <weir/weir.h>

struct budget {
	uint64_t most;    /* bytes of memory, as set by the user; 0: not set */
	uint64_t before;  /* bytes of metadata before reading began */
	uint64_t stored;  /* bytes of the file that were read */
	uint64_t decoded; /* the same bytes, decompressed */
};

/* The limit in bytes for the input that was read so far. */
uint64_t budget_limit(const struct budget *budget);

/* WEIR_EINVAL, with a message, if `used` bytes are above the limit. */
enum weir_status budget_check(const struct budget *budget, uint64_t used);

/*
 * Limit the process's metadata to `before` plus the limit, by meta_limit_set(),
 * until budget_release(). The reader calls this again whenever it has read
 * more. All structures of a reader are metadata, so its memory stays below the
 * limit even while an array grows. Only one reader of the process may do this
 * at a time.
 */
void budget_enforce(const struct budget *budget);
void budget_release(void);

/* Explain the status of a reader: if the budget caused WEIR_EHOSTMEM, return
 * WEIR_EINVAL with the message of budget_check(). */
enum weir_status budget_explain(
    const struct budget *budget, enum weir_status status);

#endif
