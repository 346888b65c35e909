/*
 * Reading a memory snapshot that is written as JSON.
 */
#ifndef TOOLS_WEIR_SNAPSHOT_JSON_H
#define TOOLS_WEIR_SNAPSHOT_JSON_H

#include "trace/snapshot_model.h"
#include "trace/source.h"

/*
 * Read a snapshot, up to the end of its JSON. Host memory is in proportion to
 * the largest segment or event, and to what is kept of them.
 *
 * @return WEIR_OK; WEIR_EINVAL with a text that names the place;
 *         WEIR_EHOSTMEM; or what the source told
 */
enum weir_status snapshot_json_read(
    struct source *source, struct snapshot **out);

#endif
