/*
 * Reads tensors from a file. All statements of a header are checked against the
 * file before memory for elements is allocated.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/save.h>

#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "tensor/header.h"
#include "tensor/tensor.h"
#include "tensor/transfer.h"

static const char caller[] = "weir_load";
static const char own_prefix[] = "weir.";
static const char view_prefix[] = "weir.view.";
static const char storage_prefix[] = "weir.storage.";

enum { LENGTH_BYTES = 8, PREFIX_MAX = 32 };

/* A tensor of the file: an entry, or a view of one. */
struct row {
	const char *name; /* in the header's texts */
	struct weir_tensor *tensor;
	const struct header_entry *entry; /* its own entry, or its holder's */
	bool is_view;
	/* It is the bytes of an entry that no tensor can have the form of. */
	bool opaque;
	/* Memory that contains views, but is no tensor of the file. */
	bool hidden;
	enum weir_dtype dtype;
	int ndim;
	int64_t *sizes; /* of a view: shape, then strides */
	size_t offset_bytes;
};

struct weir_loaded {
	struct header header;
	struct row *rows; /* sorted by name; hidden ones at the end */
	size_t n, max;
	size_t shown;
	/* Where weir's own keys are among the metadata's. */
	size_t own_keys_at, n_own_keys;
};

/* ---- The file ----------------------------------------------------------- */

static enum weir_status
load_failed(const char *path, const char *what)
{
	int error = errno;

	status_set(WEIR_EFILE, "%s: %s: %s", path, what, strerror(error));
	return status_errno(WEIR_EFILE, error);
}

static enum weir_status
read_exactly(const char *path, int file, char *to, size_t bytes, uint64_t at)
{
	while (bytes > 0) {
		ssize_t n = pread(file, to, bytes, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return load_failed(path, "reading the header");
		if (n == 0)
			return status_set(WEIR_EFILE,
			    "%s: the file ends in its header", path);
		to += n;
		at += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return WEIR_OK;
}

static enum weir_status
header_length(const char *path, int file, uint64_t size, uint64_t *out)
{
	unsigned char bytes[LENGTH_BYTES];
	uint64_t length = 0;
	enum weir_status status;

	if (size < LENGTH_BYTES)
		return status_set(WEIR_EFILE,
		    "%s: %llu bytes are no safetensors file", path,
		    (unsigned long long)size);
	status = read_exactly(path, file, (char *)bytes, sizeof(bytes), 0);
	if (status != WEIR_OK)
		return status;
	for (int i = LENGTH_BYTES - 1; i >= 0; i--)
		length = length << 8 | bytes[i];
	if (length > HEADER_MAX || length > size - LENGTH_BYTES)
		return status_set(WEIR_EFILE,
		    "%s: a header of %llu bytes does not fit in a file of %llu "
		    "bytes, or is longer than %d",
		    path, (unsigned long long)length, (unsigned long long)size,
		    HEADER_MAX);
	*out = length;
	return WEIR_OK;
}

/* Read the header, and find where the elements begin. */
static enum weir_status
read_file_header(
    const char *path, int file, struct header *header, uint64_t *elements_at)
{
	struct stat about;
	uint64_t size, length = 0;
	char *text;
	enum weir_status status;

	if (fstat(file, &about) != 0)
		return load_failed(path, "asking for its size");
	if (!S_ISREG(about.st_mode)) {
		status_set(WEIR_EFILE, "%s: it is not a regular file", path);
		return status_errno(
		    WEIR_EFILE, S_ISDIR(about.st_mode) ? EISDIR : EINVAL);
	}
	size = (uint64_t)about.st_size;
	status = header_length(path, file, size, &length);
	if (status != WEIR_OK)
		return status;
	text = meta_alloc(length + 1);
	if (text == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "%s: no host memory for a header of %llu bytes", path,
		    (unsigned long long)length);
	status = read_exactly(path, file, text, length, LENGTH_BYTES);
	if (status == WEIR_OK) {
		status = header_read(
		    text, length, size - LENGTH_BYTES - length, header);
		if (status != WEIR_OK)
			status_prefix("%s", path);
	}
	meta_free(text, length + 1);
	*elements_at = LENGTH_BYTES + length;
	return status;
}

/* ---- Rows --------------------------------------------------------------- */

/* The metadata of "PREFIX.NAME"; NULL if there is none, or no memory. */
static const char *
metadata_of(const struct header *header, const char *prefix, const char *name)
{
	size_t size = strlen(name) + PREFIX_MAX;
	char *key = meta_alloc(size);
	const char *value;

	if (key == NULL)
		return NULL;
	snprintf(key, size, "%s%s", prefix, name);
	value = header_metadata(header, key);
	meta_free(key, size);
	return value;
}

/* Find the real type of a tensor that was saved as another type. */
static enum weir_status
saved_dtype(const struct header *header, struct row *row)
{
	const char *text = metadata_of(header, "weir.dtype.", row->name);
	const int64_t *shape = header_shape(header, row->entry);
	enum weir_dtype dtype;

	if (text == NULL)
		return WEIR_OK;
	if (!row->opaque && weir_dtype_find(text, &dtype) == WEIR_OK) {
		if (row->dtype == WEIR_UINT8 && weir_dtype_size(dtype) == 1) {
			row->dtype = dtype;
			return WEIR_OK;
		}
		if (row->dtype == WEIR_FLOAT64 && dtype == WEIR_COMPLEX128 &&
		    row->ndim > 0 && shape[row->ndim - 1] == 2) {
			row->dtype = dtype;
			row->ndim--;
			return WEIR_OK;
		}
	}
	return status_set(WEIR_EFILE,
	    "weir.dtype of '%.100s': %s cannot have been %.40s", row->name,
	    row->entry->type, text);
}

static bool
has_prefix(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static enum weir_status
add_entry(struct weir_loaded *loaded, const struct header_entry *entry)
{
	struct row *row = &loaded->rows[loaded->n];

	row->name = entry->name;
	row->entry = entry;
	row->opaque = entry->opaque;
	row->dtype = entry->opaque ? WEIR_UINT8 : entry->dtype;
	row->ndim = entry->opaque ? 1 : (int)entry->ndim;
	row->hidden = has_prefix(entry->name, storage_prefix);
	loaded->n++;
	return saved_dtype(&loaded->header, row);
}

/* Read a number and the blank after it. */
static bool
read_view_number(const char **text, long long *out)
{
	char *end;

	errno = 0;
	*out = strtoll(*text, &end, 10);
	if (end == *text || errno != 0 || *end != ' ')
		return false;
	*text = end + 1;
	return true;
}

static size_t
sizes_bytes(const struct row *row)
{
	return (2 * (size_t)row->ndim + 1) * sizeof(int64_t);
}

/* Read the text that put_view() of save.c has written; false if it is
 * malformed. */
static bool
read_view(struct row *row, const struct header *header, const char *text)
{
	char type[PREFIX_MAX];
	const char *blank = strchr(text, ' ');
	long long number;

	if (blank == NULL || (size_t)(blank - text) >= sizeof(type))
		return false;
	memcpy(type, text, (size_t)(blank - text));
	type[blank - text] = '\0';
	text = blank + 1;
	if (weir_dtype_find(type, &row->dtype) != WEIR_OK ||
	    !read_view_number(&text, &number) || number < 0)
		return false;
	row->offset_bytes = (size_t)number;
	if (!read_view_number(&text, &number) || number < 0 ||
	    number > WEIR_DIMS_MAX)
		return false;
	row->ndim = (int)number;
	row->sizes = meta_zalloc(sizes_bytes(row));
	for (int i = 0; row->sizes != NULL && i < 2 * row->ndim; i++) {
		if (!read_view_number(&text, &number) ||
		    (i < row->ndim && number < 0))
			return false;
		row->sizes[i] = number;
	}
	row->entry = header_find(header, text);
	return row->entry != NULL && row->sizes != NULL;
}

/* For views only. */
static struct weir_layout
view_layout(const struct row *row)
{
	return (struct weir_layout){ .struct_size = sizeof(struct weir_layout),
		.dtype = row->dtype,
		.ndim = row->ndim,
		.shape = row->sizes,
		.strides = row->sizes + row->ndim,
		.offset_bytes = row->offset_bytes };
}

/* Does every element of a view lie in its entry? */
static bool
view_fits(const struct row *row)
{
	struct weir_layout layout = view_layout(row);
	uint64_t bytes = row->entry->end - row->entry->begin;
	int64_t low, high;

	return layout_bounds(&layout, &low, &high) &&
	    row->offset_bytes <= bytes && (uint64_t)-low <= row->offset_bytes &&
	    (uint64_t)high <= bytes - row->offset_bytes;
}

static enum weir_status
add_view(struct weir_loaded *loaded, const struct header_pair *pair)
{
	struct row *row = &loaded->rows[loaded->n];

	row->name = pair->key + strlen(view_prefix);
	row->is_view = true;
	/* From here on the row is dropped with the others. */
	loaded->n++;
	if (!read_view(row, &loaded->header, pair->value) || !view_fits(row) ||
	    row->name[0] == '\0' ||
	    header_find(&loaded->header, row->name) != NULL)
		return status_set(WEIR_EFILE,
		    "%.100s: '%.100s' is no view of an entry", pair->key,
		    pair->value);
	return WEIR_OK;
}

static int
compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->hidden != y->hidden)
		return x->hidden ? 1 : -1;
	return strcmp(x->name, y->name);
}

static enum weir_status
make_rows(struct weir_loaded *loaded)
{
	const struct header *h = &loaded->header;
	enum weir_status status = WEIR_OK;
	size_t views = 0;

	for (size_t i = 0; i < h->n_metadata; i++) {
		const char *key = h->metadata[i].key;

		views += has_prefix(key, view_prefix);
		loaded->n_own_keys += has_prefix(key, own_prefix);
		loaded->own_keys_at += strcmp(key, own_prefix) < 0;
	}
	loaded->max = h->n_entries + views;
	loaded->rows = meta_zalloc((loaded->max + 1) * sizeof(*loaded->rows));
	if (loaded->rows == NULL)
		return status_set(WEIR_EHOSTMEM, "%s: no host memory", caller);
	for (size_t i = 0; i < h->n_entries && status == WEIR_OK; i++)
		status = add_entry(loaded, &h->entries[i]);
	for (size_t i = 0; i < h->n_metadata && status == WEIR_OK; i++) {
		if (has_prefix(h->metadata[i].key, view_prefix))
			status = add_view(loaded, &h->metadata[i]);
	}
	if (status != WEIR_OK)
		return status;
	if (loaded->n > 1)
		qsort(loaded->rows, loaded->n, sizeof(*loaded->rows),
		    compare_rows);
	for (size_t i = 0; i < loaded->n; i++)
		loaded->shown += !loaded->rows[i].hidden;
	return WEIR_OK;
}

/* ---- Places ------------------------------------------------------------- */

static const char *
mapped(const struct weir_load_options *options, const char *place)
{
	const char *const *at = options != NULL ? options->map : NULL;

	for (; at != NULL && at[0] != NULL && at[1] != NULL; at += 2) {
		if (strcmp(at[0], place) == 0)
			return at[1];
	}
	return place;
}

static enum weir_status
find_place(const struct weir_loaded *loaded, const struct row *row,
    const struct weir_load_options *options, struct weir_place *out)
{
	const char *text;
	enum weir_status status;

	if (options != NULL && options->place != NULL)
		return place_resolve(caller, options->place, out);
	text = metadata_of(&loaded->header, "weir.place.", row->name);
	if (text == NULL)
		text = header_metadata(&loaded->header, "weir.place");
	if (text == NULL)
		return place_resolve(caller, NULL, out);
	*out = (struct weir_place){ .struct_size = sizeof(*out) };
	status = weir_place_parse(mapped(options, text), out);
	if (status != WEIR_OK)
		status_prefix("%s: tensor '%.100s'", caller, row->name);
	return status;
}

/* ---- Tensors ------------------------------------------------------------ */

static enum weir_status
make_tensor(struct weir_loaded *loaded, struct row *row,
    const struct weir_load_options *options)
{
	const struct header_entry *entry = row->entry;
	int64_t bytes = (int64_t)(entry->end - entry->begin);
	struct weir_layout layout = { .struct_size = sizeof(layout),
		.dtype = row->dtype,
		.ndim = row->ndim,
		.shape = row->opaque ? &bytes :
				       header_shape(&loaded->header, entry) };
	struct weir_place place;
	enum weir_status status = find_place(loaded, row, options, &place);

	if (status != WEIR_OK)
		return status;
	return tensor_new(caller, &layout, &place, &row->tensor);
}

/* Entries and views never have equal names. */
static const struct row *
row_of_entry(const struct weir_loaded *loaded, const struct header_entry *entry)
{
	struct row wanted = { .name = entry->name,
		.hidden = has_prefix(entry->name, storage_prefix) };

	return bsearch(&wanted, loaded->rows, loaded->n, sizeof(*loaded->rows),
	    compare_rows);
}

static enum weir_status
make_tensors(
    struct weir_loaded *loaded, const struct weir_load_options *options)
{
	enum weir_status status = WEIR_OK;

	for (size_t i = 0; i < loaded->n && status == WEIR_OK; i++) {
		if (!loaded->rows[i].is_view)
			status = make_tensor(loaded, &loaded->rows[i], options);
	}
	for (size_t i = 0; i < loaded->n && status == WEIR_OK; i++) {
		struct row *row = &loaded->rows[i];
		struct weir_layout layout;
		const struct row *holder;

		if (!row->is_view)
			continue;
		layout = view_layout(row);
		holder = row_of_entry(loaded, row->entry);
		status = tensor_make(caller, holder->tensor->storage, &layout,
		    holder->tensor->stream, &row->tensor);
	}
	return status;
}

static enum weir_status
read_elements(
    struct weir_loaded *loaded, struct transfer *transfer, uint64_t elements_at)
{
	size_t bytes = (loaded->n + 1) * sizeof(struct piece);
	struct piece *pieces = meta_alloc(bytes);
	enum weir_status status;

	if (pieces == NULL)
		return status_set(WEIR_EHOSTMEM, "%s: no host memory", caller);
	for (size_t i = 0; i < loaded->n; i++) {
		const struct row *row = &loaded->rows[i];

		if (!row->is_view && row->entry->end > row->entry->begin)
			pieces[transfer->n_pieces++] =
			    (struct piece){ .tensor = row->tensor,
				    .at = elements_at + row->entry->begin,
				    .bytes =
					row->entry->end - row->entry->begin };
	}
	transfer->pieces = pieces;
	status = transfer_run(transfer);
	meta_free(pieces, bytes);
	return status;
}

static enum weir_status
load_file(const char *path, int file, const struct weir_load_options *options,
    struct weir_loaded *loaded)
{
	struct transfer transfer = { .file = file,
		.path = path,
		.progress = options != NULL ? options->progress : NULL,
		.closure = options != NULL ? options->closure : NULL };
	uint64_t elements_at = 0;
	enum weir_status status =
	    read_file_header(path, file, &loaded->header, &elements_at);

	if (status != WEIR_OK)
		return status;
	status = make_rows(loaded);
	if (status != WEIR_OK)
		return status_prefix("%s", path);
	if (status == WEIR_OK)
		status = make_tensors(loaded, options);
	if (status == WEIR_OK)
		status = read_elements(loaded, &transfer, elements_at);
	return status;
}

enum weir_status
weir_load(const char *path, const struct weir_load_options *options,
    struct weir_loaded **out)
{
	struct weir_loaded *loaded;
	enum weir_status status;
	int file;

	if (path == NULL || out == NULL ||
	    (options != NULL && options->struct_size < sizeof(*options)))
		return status_set(WEIR_EINVAL,
		    "%s: path or out is NULL, or struct_size is not set",
		    caller);
	loaded = meta_zalloc(sizeof(*loaded));
	if (loaded == NULL)
		return status_set(WEIR_EHOSTMEM, "%s: no host memory", caller);
	/* Do not wait for a pipe without a writer. */
	file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (file < 0) {
		meta_free(loaded, sizeof(*loaded));
		return load_failed(path, "opening the file");
	}
	status = load_file(path, file, options, loaded);
	close(file);
	if (status != WEIR_OK) {
		weir_loaded_drop(loaded);
		return status;
	}
	*out = loaded;
	return WEIR_OK;
}

/* ---- Asking ------------------------------------------------------------- */

size_t
weir_loaded_count(const struct weir_loaded *loaded)
{
	return loaded != NULL ? loaded->shown : 0;
}

const char *
weir_loaded_name(const struct weir_loaded *loaded, size_t i)
{
	return i < weir_loaded_count(loaded) ? loaded->rows[i].name : NULL;
}

const struct weir_tensor *
weir_loaded_tensor(const struct weir_loaded *loaded, size_t i)
{
	return i < weir_loaded_count(loaded) ? loaded->rows[i].tensor : NULL;
}

const struct weir_tensor *
weir_loaded_find(const struct weir_loaded *loaded, const char *name)
{
	struct row wanted = { .name = name };
	const struct row *found;

	if (weir_loaded_count(loaded) == 0 || name == NULL)
		return NULL;
	found = bsearch(&wanted, loaded->rows, loaded->shown,
	    sizeof(*loaded->rows), compare_rows);
	return found != NULL ? found->tensor : NULL;
}

const char *
weir_loaded_opaque(const struct weir_loaded *loaded, size_t i, size_t *ndim,
    const uint64_t **shape)
{
	const struct header_entry *entry;

	if (i >= weir_loaded_count(loaded) || !loaded->rows[i].opaque)
		return NULL;
	entry = loaded->rows[i].entry;
	if (ndim != NULL)
		*ndim = entry->ndim;
	if (shape != NULL)
		*shape = header_lengths(&loaded->header, entry);
	return entry->type;
}

const char *
weir_loaded_metadata(const struct weir_loaded *loaded, const char *key)
{
	if (loaded == NULL || key == NULL || has_prefix(key, own_prefix))
		return NULL;
	return header_metadata(&loaded->header, key);
}

/* Keys are in order, so weir's own are neighbours. */
const char *
weir_loaded_key(const struct weir_loaded *loaded, size_t i)
{
	const struct header *h;

	if (loaded == NULL || i >= loaded->header.n_metadata)
		return NULL;
	h = &loaded->header;
	if (i >= loaded->own_keys_at)
		i += loaded->n_own_keys;
	return i < h->n_metadata ? h->metadata[i].key : NULL;
}

void
weir_loaded_drop(struct weir_loaded *loaded)
{
	if (loaded == NULL)
		return;
	for (size_t i = 0; i < loaded->n; i++) {
		struct row *row = &loaded->rows[i];

		weir_tensor_destroy(row->tensor);
		meta_free(row->sizes, sizes_bytes(row));
	}
	meta_free(loaded->rows, (loaded->max + 1) * sizeof(*loaded->rows));
	header_drop(&loaded->header);
	meta_free(loaded, sizeof(*loaded));
}
