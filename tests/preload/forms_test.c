/*
 * Compares the table of hooks with the toolkit's list of all forms of the
 * calls. A call whose form is missing in the table would be answered with an
 * older form.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/hooks.h"
#include "tests/support/test.h"

static const struct form {
	const char *base;
	int version;
	enum hook_streams streams;
} forms[] = {
#define FORM(name, base, version, streams, use, params)                        \
	{ base, version, streams },
	HOOKS(FORM)
#undef FORM
};

enum { FORMS = sizeof(forms) / sizeof(*forms) };

/* The lowest version in the table for a base name; 0 if it has none. */
static int
lowest(const char *base)
{
	int version = 0;

	for (size_t i = 0; i < FORMS; i++)
		if (strcmp(forms[i].base, base) == 0 &&
		    (version == 0 || forms[i].version < version))
			version = forms[i].version;
	return version;
}

static bool
known(const char *base, int version, bool per_thread)
{
	for (size_t i = 0; i < FORMS; i++)
		if (strcmp(forms[i].base, base) == 0 &&
		    forms[i].version == version &&
		    (forms[i].streams == HOOK_PER_THREAD) == per_thread)
			return true;
	return false;
}

static FILE *
open_list(void)
{
	const char *home = getenv("CUDA_HOME");
	char path[512];

	snprintf(path, sizeof(path), "%s/include/cudaTypedefs.h",
	    home != NULL ? home : "/usr/local/cuda");
	return fopen(path, "r");
}

/* Split "PFN_cuMemAllocAsync_v11020_ptsz)" into its parts. */
static bool
read_form(const char *line, char *base, int *version, bool *per_thread)
{
	const char *name = strstr(line, "*PFN_");
	const char *end = name == NULL ? NULL : strchr(name, ')');
	char text[128];
	char *mark;

	if (end == NULL || end - name - 5 >= (long)sizeof(text))
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)(end - name - 5), name + 5);
	mark = strstr(text, "_v");
	if (mark == NULL)
		return false;
	*mark = '\0';
	*version = atoi(mark + 2);
	*per_thread = strstr(mark + 2, "_pt") != NULL;
	strcpy(base, text);
	return true;
}

/* Forms from before 3.2, with sizes of 32 bits, are left to the driver. */
TEST(every_form_the_toolkit_knows_of_a_hook_is_in_the_table)
{
	FILE *list = open_list();
	int seen = 0;
	char line[1024];

	if (list == NULL)
		SKIP("there is no toolkit here");
	while (fgets(line, sizeof(line), list) != NULL) {
		bool per_thread;
		char base[128];
		int version;

		if (!read_form(line, base, &version, &per_thread) ||
		    lowest(base) == 0 ||
		    (version < 3020 && lowest(base) == 3020))
			continue;
		seen++;
		if (version <= HOOK_KNOWN_VERSION &&
		    !known(base, version, per_thread))
			FAIL("%s of %d%s is not in the table", base, version,
			    per_thread ? ", per thread" : "");
	}
	fclose(list);
	/* Otherwise the list was not parsed. */
	EXPECT_GT(seen, FORMS * 9 / 10);
}
