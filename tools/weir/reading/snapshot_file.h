/*
 * Reading a memory snapshot of any form: a pickle or JSON, plain or compressed
 * by xz or gzip. Writing the files of results.
 */
#ifndef TOOLS_WEIR_READING_SNAPSHOT_FILE_H
#define TOOLS_WEIR_READING_SNAPSHOT_FILE_H

#include <stdio.h>

#include "tools/weir/reading/snapshot_form.h"

/*
 * Read a snapshot; "-" is stdin. The caller frees it with snapshot_free(). Long
 * reading shows its progress on a terminal. On failure NULL, and a complaint
 * that names the file and its fault.
 */
struct snapshot *snapshot_load(const char *path);

/* Read a snapshot, as snapshot_load() does, or a trace in CSV, which becomes a
 * snapshot (trace_snapshot.h). A trace is recognised by its name or by its
 * first bytes. */
struct snapshot *snapshot_or_trace_load(const char *path);

/*
 * Open a file for a result; "-" is stdout. Only its owner may read and write
 * the file. A symbolic link is refused. A file of this name is replaced when
 * the new one is complete. A file whose name ends in ".gz" is compressed. One
 * file may be open at a time. On failure NULL, and a complaint.
 */
FILE *output_open(const char *path);

/* Complete and close the file. False, and a complaint, if it could not be
 * written. */
bool output_close(FILE *file, const char *path);

/* Abandon the file, after a failure that the caller has reported. A file of its
 * name stays as it was. */
void output_abandon(FILE *file);

#endif
