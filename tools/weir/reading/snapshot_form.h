/*
 * Reading a memory snapshot in the form that its first bytes show: a pickle or
 * JSON.
 */
#ifndef TOOLS_WEIR_READING_SNAPSHOT_FORM_H
#define TOOLS_WEIR_READING_SNAPSHOT_FORM_H

#include "snapshot/model.h"
#include "snapshot/source.h"

/*
 * Read a snapshot that is not compressed.
 *
 * @return WEIR_OK; WEIR_EINVAL with a text that names the kind of the file if
 *         it is no snapshot, or the place of a fault; WEIR_EHOSTMEM; or the
 *         status of the source
 */
enum weir_status snapshot_read(struct source *source, struct snapshot **out);

/* The kind of a file that begins with these bytes and is neither a snapshot nor
 * a trace, in words; NULL if it is unknown. */
const char *file_kind(const unsigned char *bytes, size_t length);

/* True if a snapshot may begin with this byte, and no other text does. */
bool snapshot_begins(unsigned char byte);

#endif
