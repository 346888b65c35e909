/*
 * The list of what is loaded, and build IDs.
 */
#include "stacks/modules.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/meta.h"
#include "tests/support/command.h"
#include "tests/support/test.h"

TEST(a_module_has_its_path_its_addresses_and_its_build_id)
{
	char *path = test_build("lib/libweir.so");
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct modules modules;

	EXPECT_NOT_NULL(library);
	modules_read(&modules);
	void *inside = dlsym(library, "weir_malloc");
	const struct module *its = modules_find(&modules, (uintptr_t)inside);
	const struct module *own =
	    modules_find(&modules, (uintptr_t)modules_read);

	EXPECT_NOT_NULL(its);
	EXPECT_STR_HAS(its->path, "libweir.so");
	EXPECT_NOT_NULL(own);
	EXPECT_STR_HAS(own->path, "modules_test");
	EXPECT_EQ(strlen(own->build_id), 40);
	EXPECT_NE(strcmp(own->build_id, its->build_id), 0);
	EXPECT_NULL(modules_find(&modules, 1));
	modules_free(&modules);
	free(path);
}

TEST(without_memory_modules_are_left_out)
{
	struct modules modules;

	meta_fail(1, 1000);
	modules_read(&modules);
	meta_fail(0, 0);
	EXPECT_EQ(modules.n, 0);
	modules_free(&modules);
}

/* Each cut and each changed word of two notes is read within their bytes. */
TEST(notes_that_are_cut_or_corrupt_have_no_build_id)
{
	static const unsigned char notes[] = { 4, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0,
		0, 'G', 'N', 'U', 0, 1, 2, 3, 4, 5, 0, 0, 0, 4, 0, 0, 0, 3, 0,
		0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0, 0xab, 0xcd, 0xef, 0 };
	char text[BUILD_ID_TEXT] = "";

	EXPECT(build_id_in_notes((const char *)notes, sizeof(notes), text));
	EXPECT_STR_EQ(text, "abcdef");
	for (size_t n = 0; n < sizeof(notes); n++) {
		char *cut = malloc(n + 1);

		memcpy(cut, notes, n);
		EXPECT(!build_id_in_notes(cut, n, text));
		free(cut);
	}
	for (size_t i = 0; i < sizeof(notes); i++) {
		enum { BYTES = sizeof(notes) };
		char *changed = malloc(BYTES);

		memcpy(changed, notes, sizeof(notes));
		changed[i] = (char)0xff;
		build_id_in_notes(changed, sizeof(notes), text);
		EXPECT_LE(strlen(text), 2 * 3);
		free(changed);
	}
}
