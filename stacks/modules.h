/*
 * The program and the libraries that are loaded, and the build IDs of their
 * files. Only the loader's own list is read, and no file.
 */
#ifndef STACKS_MODULES_H
#define STACKS_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a build ID as text: 40 hexadecimal digits are usual. */
enum { BUILD_ID_TEXT = 2 * 32 + 1 };

struct module {
	uintptr_t base;  /* what the loader adds to addresses of the file */
	uintptr_t start; /* the first address of its segments */
	uintptr_t end;   /* behind the last one */
	char *path;      /* as the loader has it */
	char build_id[BUILD_ID_TEXT]; /* "" if the file has none */
};

struct modules {
	struct module *at; /* in the loader's order */
	size_t n;
	size_t room;
};

/* Read the loader's list. Modules for which there is no memory are left out. */
void modules_read(struct modules *modules);
void modules_free(struct modules *modules);

/* The module that contains an address, or NULL. */
const struct module *modules_find(
    const struct modules *modules, uintptr_t address);

/* Write the build ID of an ELF note as text. False if these bytes have none. */
bool build_id_in_notes(
    const char *notes, size_t size, char text[BUILD_ID_TEXT]);

#endif
