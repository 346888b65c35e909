/*
 * The page that tools/viewer is built into, without data. The build makes it a
 * C file; without what that needs it has no bytes.
 */
#ifndef TOOLS_WEIR_PAGE_H
#define TOOLS_WEIR_PAGE_H

#include <stddef.h>

/* Where the data go is marked by PAGE_DATA, once. */
#define PAGE_DATA "<!--weir:data-->"

extern const unsigned char page_html[];
extern const size_t page_bytes;

#endif
