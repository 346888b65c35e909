/*
 * A library that is loaded and whose file is changed afterwards: the loader's
 * mapping stays, and the reader of debug information finds hostile data.
 */
#ifndef TESTS_TRACE_HOSTILE_H
#define TESTS_TRACE_HOSTILE_H

#include <stddef.h>
#include <stdint.h>

/* The library, its file, and a function of it. */
struct hostile {
	char *path;
	int fd;
	void *library;
	char *symbol;
};

/* A section that is written into the file. */
struct hostile_section {
	const char *name;
	uint32_t type; /* 0: SHT_PROGBITS */
	uint32_t link;
	uint64_t flags;
	const void *bytes;
	size_t size;
};

struct hostile hostile_load(void);

/*
 * Replace all sections of the file by these, numbered from 1 on; their names
 * are the last one. There may be fewer than 16.
 */
void hostile_write_sections(const struct hostile *hostile,
    const struct hostile_section *sections, size_t n);

/* The function is named in a separate process, in at most ten seconds of a
 * processor. What it found, in bits: */
enum { HOSTILE_NAMED = 1, HOSTILE_LINE = 2 };
int hostile_name(const struct hostile *hostile);

/* Expect that the function has its name, and unload the library. */
void hostile_finish(struct hostile *hostile);

#endif
