/*
 * dl_iterate_phdr() holds the loader's lock. The list is copied, because a
 * library may be unloaded afterwards.
 */
#include "stacks/modules.h"

#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/meta.h"

bool
build_id_in_notes(const char *notes, size_t size, char text[BUILD_ID_TEXT])
{
	ElfW(Nhdr) note;

	while (size >= sizeof(note)) {
		memcpy(&note, notes, sizeof(note));
		size_t name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
		size_t id = ((size_t)note.n_descsz + 3) & ~(size_t)3;
		const char *at = notes + sizeof(note);

		if (name > size - sizeof(note) ||
		    id > size - sizeof(note) - name)
			return false;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    memcmp(at, "GNU", 4) == 0 && note.n_descsz > 0 &&
		    note.n_descsz <= BUILD_ID_TEXT / 2) {
			for (size_t i = 0; i < note.n_descsz; i++)
				snprintf(text + 2 * i, 3, "%02x",
				    (unsigned char)at[name + i]);
			return true;
		}
		notes = at + name + id;
		size -= sizeof(note) + name + id;
	}
	return false;
}

/* Is the part within what the loader has mapped for reading? */
static bool
part_is_mapped(const struct dl_phdr_info *info, const ElfW(Phdr) * part)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *load = &info->dlpi_phdr[i];

		if (load->p_type == PT_LOAD && (load->p_flags & PF_R) != 0 &&
		    part->p_vaddr >= load->p_vaddr &&
		    part->p_vaddr - load->p_vaddr <= load->p_filesz &&
		    part->p_filesz <=
			load->p_filesz - (part->p_vaddr - load->p_vaddr))
			return true;
	}
	return false;
}

static void
read_parts(const struct dl_phdr_info *info, struct module *module)
{
	module->base = info->dlpi_addr;
	module->start = UINTPTR_MAX;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_LOAD) {
			if (start < module->start)
				module->start = start;
			if (start + part->p_memsz > module->end)
				module->end = start + part->p_memsz;
		} else if (part->p_type == PT_NOTE &&
		    module->build_id[0] == '\0' && part_is_mapped(info, part)) {
			build_id_in_notes((const char *)start, part->p_filesz,
			    module->build_id);
		}
	}
}

static bool
grow_modules(struct modules *modules)
{
	size_t room = 2 * modules->room + 32;
	struct module *at;

	if (modules->n < modules->room)
		return true;
	at = meta_alloc(room * sizeof(*at));
	if (at == NULL)
		return false;
	if (modules->n > 0)
		memcpy(at, modules->at, modules->n * sizeof(*at));
	meta_free(modules->at, modules->room * sizeof(*at));
	modules->at = at;
	modules->room = room;
	return true;
}

static int
read_module(struct dl_phdr_info *info, size_t size, void *user)
{
	struct modules *modules = user;
	struct module module = { 0 };
	char program[PATH_MAX];
	const char *path = info->dlpi_name;
	ssize_t length;

	(void)size;
	read_parts(info, &module);
	/* The program has no name here. */
	if (path == NULL || path[0] == '\0') {
		length = readlink("/proc/self/exe", program, PATH_MAX - 1);
		program[length > 0 ? length : 0] = '\0';
		path = program;
	}
	if (!grow_modules(modules))
		return 0;
	module.path = meta_alloc(strlen(path) + 1);
	if (module.path == NULL)
		return 0;
	strcpy(module.path, path);
	modules->at[modules->n++] = module;
	return 0;
}

void
modules_read(struct modules *modules)
{
	*modules = (struct modules){ 0 };
	dl_iterate_phdr(read_module, modules);
}

void
modules_free(struct modules *modules)
{
	for (size_t i = 0; i < modules->n; i++)
		meta_free(modules->at[i].path, strlen(modules->at[i].path) + 1);
	meta_free(modules->at, modules->room * sizeof(*modules->at));
	*modules = (struct modules){ 0 };
}

const struct module *
modules_find(const struct modules *modules, uintptr_t address)
{
	for (size_t i = 0; i < modules->n; i++)
		if (address >= modules->at[i].start &&
		    address < modules->at[i].end)
			return &modules->at[i];
	return NULL;
}
