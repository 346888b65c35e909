/*
 * Reading a memory snapshot that was written by Python's pickle (protocols 0
 * to 5) or by torch's own pickler.
 *
 * A pickle is a program for a small machine with a stack. The one here makes
 * numbers, texts, lists, tuples and dicts, and refuses every operation that
 * imports or calls something: reading a snapshot runs nothing of it. The
 * input may be any bytes. Host memory stays in proportion to it: the source's
 * budget sees to that (Note [The budget of a reader]). A snapshot as PyTorch
 * writes it takes two thirds of the file.
 */
#ifndef TRACE_PICKLE_READ_H
#define TRACE_PICKLE_READ_H

#include "trace/snapshot_model.h"
#include "trace/source.h"

/*
 * Read up to the end of the pickle; what follows it is left.
 *
 * @param out  the snapshot; the caller frees it
 * @return WEIR_OK; WEIR_EINVAL with a text that names the operation and its
 *         offset, "opcode GLOBAL at offset 12 would import an object: refused";
 *         WEIR_EHOSTMEM; or what the source told
 */
enum weir_status pickle_read(struct source *source, struct snapshot **out);

#endif
