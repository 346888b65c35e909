/*
 * A library that is loaded and whose file is changed afterwards: the loader's
 * mapping stays, and the reader of debug information finds hostile data.
 */
#ifndef TESTS_STACKS_HOSTILE_H
#define TESTS_STACKS_HOSTILE_H

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

/* Read the header of the file. */
ElfW(Ehdr) hostile_head(const struct hostile *hostile);

/* Write bytes at an offset of the file. */
void hostile_write(
    const struct hostile *hostile, const void *bytes, size_t size, off_t at);

/* Find the section with a name, which there must be. Returns where its header
 * is in the file, and reads that. */
off_t hostile_find_section(
    const struct hostile *hostile, const char *name, ElfW(Shdr) * section);

/* Replace the bytes of a section; the new ones are put behind the end of the
 * file. */
void hostile_replace_section(const struct hostile *hostile, const char *name,
    const void *bytes, size_t size);

/* Compress a section as 'gcc -gz' does, and claim that it has so many bytes
 * more. `type` names the algorithm; the bytes are zlib's in any case. */
void hostile_compress_section(const struct hostile *hostile, const char *name,
    ElfW(Word) type, uint64_t more);

/* The function is named in a separate process, in at most ten seconds of a
 * processor. What it found, in bits: */
enum { HOSTILE_NAMED = 1, HOSTILE_LINE = 2 };
int hostile_name(const struct hostile *hostile);

/* Expect that the function has its name, and unload the library. */
void hostile_finish(struct hostile *hostile);

#endif
