/*
 * The page that the build makes from tools/viewer, without data. The build puts
 * it into a C file. The page has 0 bytes if the tools for that are missing.
 */
#ifndef TOOLS_WEIR_PAGE_H
#define TOOLS_WEIR_PAGE_H

#include <stddef.h>

/* The page has this mark once, at the place for the data. */
#define PAGE_DATA "<!--weir:data-->"

extern const unsigned char page_html[];
extern const size_t page_bytes;

#endif
