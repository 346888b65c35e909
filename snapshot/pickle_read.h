/*
 * Reading a memory snapshot that was written by Python's pickle (protocols 0 to
 * 5) or by torch's own pickler.
 *
 * A pickle is a program for a small machine with a stack. This machine makes
 * numbers, texts, lists, tuples and dicts, and refuses every operation that
 * imports or calls something, so reading a snapshot runs none of its code. The
 * input may be any bytes. The source's budget keeps host memory in proportion
 * to the input (Note [The budget of a reader]). A snapshot written by PyTorch
 * needs two thirds of its file's size.
 */
#ifndef SNAPSHOT_PICKLE_READ_H
#define SNAPSHOT_PICKLE_READ_H

#include "snapshot/model.h"
#include "snapshot/source.h"

/*
 * Read up to the end of the pickle, and no further.
 *
 * @param out  the snapshot; the caller frees it
 * @return WEIR_OK; WEIR_EINVAL with a message that names the operation and its
 *         offset, "opcode GLOBAL at offset 12 would import an object: refused";
 *         WEIR_EHOSTMEM; or the status of the source
 */
enum weir_status pickle_read(struct source *source, struct snapshot **out);

#endif
