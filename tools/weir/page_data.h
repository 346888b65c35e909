/*
 * A snapshot as the page of tools/viewer reads it: columns of numbers, and all
 * text in one of them. tools/viewer/src/data.js describes them.
 */
#ifndef TOOLS_WEIR_PAGE_DATA_H
#define TOOLS_WEIR_PAGE_DATA_H

#include <stdbool.h>
#include <stdio.h>

#include "trace/snapshot_model.h"

struct page_data;

/*
 * Data of a page that is called `title`. NULL, and a complaint, if memory is
 * lacking or the snapshot's addresses are too far apart. The snapshot and the
 * title must stay until page_data_free().
 */
struct page_data *page_data_new(
    const struct snapshot *snapshot, const char *title);
void page_data_free(struct page_data *page);

/*
 * Write them, packed into characters of base64 alone. False, and a complaint,
 * without memory; ferror() reports what did not reach the file.
 */
bool page_data_write(const struct page_data *page, FILE *out);

#endif
