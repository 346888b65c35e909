/*
 * Recognising a snapshot by its first bytes, and reading it.
 */
#include "tools/weir/reading/snapshot_form.h"

#include <string.h>

#include "base/status.h"
#include "snapshot/pickle_read.h"
#include "tools/weir/reading/snapshot_json.h"

enum { SNIFFED = 32 /* bytes by which the kind of a file is recognised */ };

/* Files that people may mistake for snapshots, by their first bytes. */
static const struct {
	const char *begins;
	size_t length;
	const char *is;
} others[] = {
	{ "PK\3\4", 4, "a zip archive, as torch.save() writes checkpoints" },
	{ "\x28\xb5\x2f\xfd", 4, "compressed by zstd; decompress it first" },
	{ "BZh", 3, "compressed by bzip2; bunzip2 it first" },
	{ "\x7f"
	  "ELF",
	    4, "a program" },
	{ "\x89HDF", 4, "an HDF5 file" },
	{ "\x89PNG", 4, "a picture" },
	{ "%PDF", 4, "a PDF file" },
	{ "<", 1, "an HTML or XML page" },
	{ "version https://git-lfs", 23,
	    "a pointer of git-lfs; 'git lfs pull' fetches the file" },
};

const char *
file_kind(const unsigned char *bytes, size_t length)
{
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (length >= others[i].length &&
		    memcmp(bytes, others[i].begins, others[i].length) == 0)
			return others[i].is;
	return NULL;
}

static bool
begins_json(unsigned char byte)
{
	return byte != '\0' && strchr("{[ \t\r\n", byte) != NULL;
}

bool
snapshot_begins(unsigned char byte)
{
	return byte == 0x80 || (byte != '\0' && strchr("(])}{[", byte) != NULL);
}

/* Read a snapshot in the form that its first bytes show. */
static enum weir_status
read_form(struct source *source, struct snapshot **out)
{
	enum weir_status status = source_fill(source, SNIFFED);
	const char *other;

	if (status != WEIR_OK)
		return status;
	other = file_kind(source->at, source_left(source));
	if (other != NULL)
		return status_set(
		    WEIR_EINVAL, "not a memory snapshot: %s", other);
	if (source_left(source) == 0)
		return status_set(
		    WEIR_EINVAL, "not a memory snapshot: it is empty");
	if (begins_json(*source->at))
		return snapshot_json_read(source, out);
	if (snapshot_begins(*source->at))
		return pickle_read(source, out);
	return status_set(
	    WEIR_EINVAL, "not a memory snapshot: neither a pickle nor JSON");
}

enum weir_status
snapshot_read(struct source *source, struct snapshot **out)
{
	enum weir_status status;

	if (source->budget == NULL)
		return read_form(source, out);
	budget_enforce(source->budget);
	status = read_form(source, out);
	status = budget_explain(source->budget, status);
	budget_release();
	return status;
}
