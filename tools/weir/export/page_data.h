/*
 * The data of the page of tools/viewer: a snapshot as columns of numbers, with
 * all text in one column. tools/viewer/src/data.js describes the columns.
 */
#ifndef TOOLS_WEIR_EXPORT_PAGE_DATA_H
#define TOOLS_WEIR_EXPORT_PAGE_DATA_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "snapshot/model.h"

struct page_data;

/*
 * Make the data of a page with the title `title`. NULL, and a complaint, if
 * memory is lacking or the snapshot's addresses are too far apart. The snapshot
 * and the title must stay until page_data_free().
 */
struct page_data *page_data_new(
    const struct snapshot *snapshot, const char *title);

/* Add what what_if_play() found of the snapshot. False, and a complaint,
 * without memory. */
bool page_data_add_what_if(struct page_data *page, const json_t *what_if);

/* Add the advice of advise_page(), likewise. */
bool page_data_add_advice(struct page_data *page, const json_t *advice);
void page_data_free(struct page_data *page);

/*
 * Write the data, packed and in base64. False, and a complaint, without memory.
 * ferror(out) reports a failure to write.
 */
bool page_data_write(const struct page_data *page, FILE *out);

#endif
