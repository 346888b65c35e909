/*
 * Opening a memory snapshot, whatever form it has: a pickle, JSON, either of
 * them compressed by xz or gzip.
 */
#ifndef TOOLS_WEIR_SNAPSHOT_FILE_H
#define TOOLS_WEIR_SNAPSHOT_FILE_H

#include <stdio.h>

#include "trace/snapshot_model.h"
#include "trace/source.h"

/*
 * Read a snapshot that is not compressed.
 *
 * @return WEIR_OK; WEIR_EINVAL and what it is instead, or where it is wrong;
 *         WEIR_EHOSTMEM; or what the source told
 */
enum weir_status snapshot_read(struct source *source, struct snapshot **out);

/* True if what begins with this byte may be one, and is no text of another
 * kind. */
bool snapshot_begins(unsigned char byte);

/* Bytes of memory that --read-memory lets readers take; 0 without that flag. */
uint64_t read_memory(void);

/*
 * Read a snapshot; "-" is stdin. NULL, and a complaint that names the file and
 * what is wrong with it. Long reading shows its progress on a terminal. The
 * caller frees it with snapshot_free().
 */
struct snapshot *snapshot_load(const char *path);

/* As snapshot_load(), and a trace in CSV becomes a snapshot: one by its name,
 * or by its first bytes (trace_snapshot.h). */
struct snapshot *snapshot_or_trace_load(const char *path);

/*
 * Open a file to write a result to, "-" for stdout: readable and writable by
 * its owner alone, and never through a symbolic link. What is there is
 * replaced when the file is complete. What ends in ".gz" is compressed. One at
 * a time. NULL, and a complaint.
 */
FILE *output_open(const char *path);

/* End it. False, and a complaint, if something did not reach the file. */
bool output_close(FILE *file, const char *path);

/* Abandon the file: the one that was there before stays. For a failure that
 * has been reported. */
void output_abandon(FILE *file);

#endif
