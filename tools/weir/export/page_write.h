/*
 * The page of tools/viewer with data in it.
 */
#ifndef TOOLS_WEIR_EXPORT_PAGE_WRITE_H
#define TOOLS_WEIR_EXPORT_PAGE_WRITE_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/weir/export/page_data.h"

/*
 * Write the page, with the data of a snapshot and those of an earlier one, if
 * any. A live page may fetch from the server that it came from, and nothing
 * else. False, and a complaint, without memory. ferror(out) reports a failure
 * to write.
 *
 * @param before  NULL for none
 */
bool page_write(const struct page_data *data, const struct page_data *before,
    bool live, FILE *out);

#endif
