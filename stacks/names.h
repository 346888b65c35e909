/*
 * The names of addresses.
 *
 * Names are in the debug information and symbols of files, which may be large
 * or corrupt. No such file is read in this process: it asks a helper, the
 * `weir` command (docs/adr/0014). A helper that crashes, hangs or answers
 * nonsense leaves frames with the names that dladdr() knows, those of exported
 * functions, and does no other harm.
 *
 * The calls open descriptors, start a process and wait for it. They are
 * thread-safe and are made without a lock of weir's.
 */
#ifndef STACKS_NAMES_H
#define STACKS_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stacks/tuning.h"

/* A place of an address: calls that the compiler has inlined, innermost first,
 * and then the function around them. Texts are cut to size; "" means unknown.
 */
struct name_place {
	char function[NAME_TEXT]; /* C++ names as in the source */
	char file[NAME_TEXT];     /* path of the source file */
	unsigned line;            /* line in the file; 0: unknown */
};

/* An instruction in a file. */
struct name_query {
	const char *module;   /* path of the program or library */
	const char *build_id; /* of the module, as text, or "" */
	uint64_t offset;      /* address in the file, as addr2line has it */
};

/* How helpers have served a set of frames, such as those of a snapshot. Zero it
 * before the first call. */
struct names {
	unsigned failures; /* helpers that did not answer all */
	uint64_t spent_ns; /* the time that helpers took */
	const char *lack;  /* why some frames were not named; NULL: none */
};

/* `places` are of query i, and n > 0; valid during the call. */
typedef void name_taker(
    void *user, size_t i, const struct name_place *places, size_t n);

/*
 * Ask helpers for the names of n queries, and call `take` for those that have
 * some, in order. All calls with the same `names` wait for at most 20 s in all,
 * and ask no more after four helpers have failed. A query whose file has
 * another build ID now has no names. A query without one has names only if it
 * is `trusted`, and the file has none either.
 */
void names_ask(struct names *names, const struct name_query *queries, size_t n,
    bool trusted, name_taker *take, void *user);

/* A return address of this process. */
struct name_frame {
	const char *module; /* path of the program or library; "": none */
	const char *build_id;
	uint64_t offset; /* of the return address, as addr2line has it */
	bool asked;      /* the helper has named it */
};

typedef void name_frame_taker(void *user, size_t i,
    const struct name_frame *frame, const struct name_place *places, size_t n);

/* Name n return addresses from stack_capture(). `take` is called once for each,
 * in any order, with at least one place, which may be without names. */
void names_find(struct names *names, const void *const *words, size_t n,
    name_frame_taker *take, void *user);

#endif
