/*
 * The callers that tell stacks with one site apart.
 *
 * A program may allocate all its memory in one function, such as the pool of an
 * application. Then all stacks have the same site (snapshot_sites.h), and the
 * site says nothing: the caller does, beyond the frames that all share. All
 * commands and the page name stacks by this rule.
 */
#ifndef TOOLS_WEIR_READING_SNAPSHOT_CALLERS_H
#define TOOLS_WEIR_READING_SNAPSHOT_CALLERS_H

#include <jansson.h>

#include "tools/weir/reading/snapshot_view.h"

struct callers;

/*
 * Which caller: the frame at which the stacks of a site first part, and the
 * frame at which a stack has parted from all others. The frames are those of
 * the program: of the grade that the site has.
 */
enum caller { CALLER_NEAR, CALLER_FAR, CALLERS };

/* Bytes of a site and its callers. */
enum { CALLERS_TEXT = (CALLERS + 2) * (VIEW_TEXT + 16) };

/* Find the callers of all stacks of a snapshot, which must outlive the result.
 * NULL, and a complaint, without memory. */
struct callers *callers_new(const struct snapshot *snapshot);
void callers_free(struct callers *callers);

/* The index of a caller among the frames of the program, counted from the site
 * outwards; 0 where caller_frame() is UINT32_MAX. */
uint32_t caller_place(
    const struct callers *callers, uint32_t stack, enum caller which);

/* From now on the texts of these stacks have a second caller where the first
 * leaves two of them with one text; and where callers leave two with one text,
 * the function of a library or framework that the site calls. `stacks` may have
 * a stack twice. False, and a complaint, without memory. */
bool callers_tell_apart(
    struct callers *callers, const uint32_t *stacks, size_t count);

/* The site of a stack and its callers: "take (a.c:7), called by load (a.c:9)".
 * Returns `text`. */
const char *callers_text(
    const struct callers *callers, uint32_t stack, char text[CALLERS_TEXT]);

/* Put the site of a stack under "site" and its first caller under "caller",
 * which may be null. */
void put_site(json_t *object, const struct callers *callers, uint32_t stack);

#endif
