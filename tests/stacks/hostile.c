/*
 * The library is a copy of one of the tests' own.
 */
#include "tests/stacks/hostile.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include "stacks/stack.h"
#include "tests/support/command.h"
#include "tests/support/test.h"

#define FUNCTION "InitializeInjectionNvtx2"

/* In the exit status of a process that a sanitizer has not ended. */
enum { RETURNED = 64 };

struct hostile
hostile_load(void)
{
	char *path = test_build("tests/trace/fake/nvtx_tool.so");
	FILE *file = fopen(path, "rb");
	static char bytes[4 << 20];
	struct hostile hostile;

	EXPECT_NOT_NULL(file);
	size_t size = fread(bytes, 1, sizeof(bytes), file);

	EXPECT_LT(size, sizeof(bytes));
	fclose(file);
	free(path);
	hostile.path = test_file("tool.so", bytes, size);
	hostile.fd = open(hostile.path, O_RDWR | O_CLOEXEC);
	EXPECT_GE(hostile.fd, 0);
	hostile.library = dlopen(hostile.path, RTLD_NOW | RTLD_LOCAL);
	EXPECT_NOT_NULL(hostile.library);
	hostile.symbol = dlsym(hostile.library, FUNCTION);
	EXPECT_NOT_NULL(hostile.symbol);
	return hostile;
}

ElfW(Ehdr) hostile_head(const struct hostile *hostile)
{
	ElfW(Ehdr) head;

	EXPECT_EQ(pread(hostile->fd, &head, sizeof(head), 0), sizeof(head));
	return head;
}

void
hostile_write(
    const struct hostile *hostile, const void *bytes, size_t size, off_t at)
{
	EXPECT_EQ(pwrite(hostile->fd, bytes, size, at), size);
}

off_t
hostile_find_section(
    const struct hostile *hostile, const char *name, ElfW(Shdr) * section)
{
	ElfW(Ehdr) head = hostile_head(hostile);
	size_t each = sizeof(*section);
	int fd = hostile->fd;
	ElfW(Shdr) names;
	char found[20] = "";

	EXPECT_EQ(pread(fd, &names, each,
		      (off_t)(head.e_shoff + each * head.e_shstrndx)),
	    each);
	for (int i = 1; i < head.e_shnum; i++) {
		off_t at = (off_t)(head.e_shoff + each * (size_t)i);

		EXPECT_EQ(pread(fd, section, each, at), each);
		EXPECT_GT(pread(fd, found, sizeof(found) - 1,
			      (off_t)(names.sh_offset + section->sh_name)),
		    strlen(name));
		if (strcmp(found, name) == 0)
			return at;
	}
	FAIL("no section %s", name);
	return 0;
}

/* Put the bytes of a section, whose header is at an offset of the file, behind
 * the end of the file. */
static void
move_section(const struct hostile *hostile, off_t header_at,
    ElfW(Shdr) * header, const void *bytes, size_t size)
{
	header->sh_offset = (ElfW(Off))lseek(hostile->fd, 0, SEEK_END);
	header->sh_size = size;
	hostile_write(hostile, bytes, size, (off_t)header->sh_offset);
	hostile_write(hostile, header, sizeof(*header), header_at);
}

void
hostile_replace_section(const struct hostile *hostile, const char *name,
    const void *bytes, size_t size)
{
	ElfW(Shdr) header;
	off_t at = hostile_find_section(hostile, name, &header);

	move_section(hostile, at, &header, bytes, size);
}

void
hostile_compress_section(const struct hostile *hostile, const char *name,
    ElfW(Word) type, uint64_t more)
{
	static unsigned char packed[4 << 20];
	ElfW(Chdr) head = { .ch_type = type, .ch_addralign = 1 };
	unsigned long length = sizeof(packed) - sizeof(head);
	ElfW(Shdr) section;
	off_t at = hostile_find_section(hostile, name, &section);
	unsigned char *bytes = malloc(section.sh_size);

	EXPECT_NOT_NULL(bytes);
	EXPECT_EQ(pread(hostile->fd, bytes, section.sh_size,
		      (off_t)section.sh_offset),
	    section.sh_size);
	head.ch_size = section.sh_size + more;
	memcpy(packed, &head, sizeof(head));
	EXPECT_EQ(
	    compress(packed + sizeof(head), &length, bytes, section.sh_size),
	    Z_OK);
	free(bytes);
	section.sh_flags |= SHF_COMPRESSED;
	move_section(hostile, at, &section, packed, sizeof(head) + length);
}

static uint64_t
append(int fd, const void *bytes, size_t size)
{
	off_t end = lseek(fd, 0, SEEK_END);

	end = (end + 15) / 16 * 16;
	if (size > 0)
		EXPECT_EQ(pwrite(fd, bytes, size, end), size);
	return (uint64_t)end;
}

void
hostile_write_sections(const struct hostile *hostile,
    const struct hostile_section *sections, size_t n)
{
	enum { MOST = 16 };
	ElfW(Shdr) headers[MOST + 2] = { { 0 } };
	char names[1024] = "";
	size_t used = 1;
	ElfW(Ehdr) head;

	EXPECT_LT(n, MOST);
	for (size_t i = 0; i < n; i++) {
		ElfW(Shdr) *header = &headers[i + 1];
		uint32_t type = sections[i].type;

		header->sh_name = (uint32_t)used;
		header->sh_type = type == 0 ? SHT_PROGBITS : type;
		header->sh_link = sections[i].link;
		header->sh_flags = sections[i].flags;
		header->sh_offset =
		    append(hostile->fd, sections[i].bytes, sections[i].size);
		header->sh_size = sections[i].size;
		used += 1 +
		    (size_t)snprintf(names + used, sizeof(names) - used, "%s",
			sections[i].name);
	}
	headers[n + 1].sh_type = SHT_STRTAB;
	headers[n + 1].sh_offset = append(hostile->fd, names, used);
	headers[n + 1].sh_size = used;
	head = hostile_head(hostile);
	head.e_shoff =
	    append(hostile->fd, headers, (n + 2) * sizeof(headers[0]));
	head.e_shnum = (ElfW(Half))(n + 2);
	head.e_shstrndx = (ElfW(Half))(n + 1);
	hostile_write(hostile, &head, sizeof(head), 0);
}

static const struct hostile *named;

struct walk {
	int (*each)(struct dl_phdr_info *, size_t, void *);
	void *user;
};

static int
pass_named(struct dl_phdr_info *info, size_t size, void *user)
{
	const struct walk *walk = user;

	if (named != NULL && strcmp(info->dlpi_name, named->path) != 0)
		return 0;
	return walk->each(info, size, walk->user);
}

/* By this function the reader finds the loaded libraries. While a library is
 * named it is the only one: reading the debug information of libc, where a
 * machine has it, and of this program takes a second, and ten under TSan. */
int
dl_iterate_phdr(
    int (*callback)(struct dl_phdr_info *, size_t, void *), void *data)
{
	struct walk walk = { .each = callback, .user = data };
	int (*next)(int (*)(struct dl_phdr_info *, size_t, void *), void *);

	*(void **)&next = dlsym(RTLD_NEXT, "dl_iterate_phdr");
	return next(pass_named, &walk);
}

static int
name_it(void)
{
	rlim_t seconds = (rlim_t)test_seconds(10);
	struct rlimit limit = { seconds, seconds };
	struct stack_place place;

	setrlimit(RLIMIT_CPU, &limit);
	if (stack_describe(named->symbol + 2, &place, 1) != 1 ||
	    strcmp(place.function, FUNCTION) != 0)
		return RETURNED;
	return RETURNED |
	    (place.line > 0 ? HOSTILE_NAMED | HOSTILE_LINE : HOSTILE_NAMED);
}

int
hostile_name(const struct hostile *hostile)
{
	named = hostile;
	int found = test_child_status(name_it);

	named = NULL;
	EXPECT_EQ(found & ~(HOSTILE_NAMED | HOSTILE_LINE), RETURNED);
	return found & (HOSTILE_NAMED | HOSTILE_LINE);
}

void
hostile_finish(struct hostile *hostile)
{
	EXPECT_NE(hostile_name(hostile) & HOSTILE_NAMED, 0);
	dlclose(hostile->library);
	close(hostile->fd);
	free(hostile->path);
}
