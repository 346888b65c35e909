/*
 * How much memory reading a file may take.
 *
 * Note [The budget of a reader]
 *
 * A file from anywhere may be small and ask for much: it is compressed, or made
 * of operations that cost more than they take. So memory is counted against
 * what the file gives for it, and the least of these holds:
 *
 *	256 MiB and 256 bytes for each byte of the file as it is stored
 *	64 MiB and 64 bytes for each byte that it came to, decompressed
 *	half of the machine's memory
 *
 * A snapshot as PyTorch writes it takes two bytes for each byte, and under xz
 * some forty to eighty for each stored byte. Work is in proportion to memory
 * and bytes, so time has a bound too. A limit that the user sets holds in place
 * of these.
 */
#ifndef TRACE_BUDGET_H
#define TRACE_BUDGET_H

#include <stdint.h>

#include <weir/weir.h>

struct budget {
	uint64_t most;    /* bytes of memory, as set by the user; 0: not set */
	uint64_t before;  /* bytes of metadata before */
	uint64_t stored;  /* bytes of the file that were read */
	uint64_t decoded; /* bytes that they came to */
};

/* Bytes of memory that the input read so far may take. */
uint64_t budget_limit(const struct budget *budget);

/* WEIR_EINVAL, told, if `used` bytes are above the limit. */
enum weir_status budget_check(const struct budget *budget, uint64_t used);

/*
 * Let no allocation of metadata take more than the limit above `before`
 * (meta_limit_set()), until budget_release(). The reader calls it again when it
 * has read more. A reader's structures are all metadata, so what it holds stays
 * below the limit while an array grows, too. One reader of the process at a
 * time.
 */
void budget_enforce(const struct budget *budget);
void budget_release(void);

/* The status of a reader: WEIR_EHOSTMEM becomes WEIR_EINVAL, told as by
 * budget_check(), if the budget was the reason. */
enum weir_status budget_explain(
    const struct budget *budget, enum weir_status status);

#endif
