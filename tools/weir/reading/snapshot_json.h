/*
 * Reading a memory snapshot in JSON.
 */
#ifndef TOOLS_WEIR_READING_SNAPSHOT_JSON_H
#define TOOLS_WEIR_READING_SNAPSHOT_JSON_H

#include "snapshot/model.h"
#include "snapshot/source.h"

/*
 * Read a snapshot, up to the end of its JSON. The host memory that this takes
 * is in proportion to the largest segment or event, and to the snapshot.
 *
 * @return WEIR_OK; WEIR_EINVAL with a text that names the place of the fault;
 *         WEIR_EHOSTMEM; or the status of the source
 */
enum weir_status snapshot_json_read(
    struct source *source, struct snapshot **out);

#endif
