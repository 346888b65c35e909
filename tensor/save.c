/*
 * Writes tensors to a file: decides which have entries and which are views of
 * others, and writes the header.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/save.h>

#include "base/meta.h"
#include "base/os.h"
#include "base/out.h"
#include "base/quiet.h"
#include "base/status.h"
#include "tensor/header.h"
#include "tensor/tensor.h"
#include "tensor/transfer.h"

static const char caller[] = "weir_save";

enum { LENGTH_BYTES = 8, NONE = -1 };

/* A tensor to be saved, or memory that several tensors share. */
struct item {
	const char *name; /* NULL: "weir.storage." and the number */
	size_t number;
	const struct weir_tensor *tensor;
	struct weir_tensor *owned; /* the tensor, if it was made here */
	/* A contiguous tensor, whose elements are written. */
	const struct weir_tensor *source;
	uintptr_t low, high; /* the addresses that it touches */
	/* The item of which it is a view; NONE: it has an entry. */
	ptrdiff_t holder;
	uint64_t at; /* offset from the end of the header */
	uint64_t bytes;
};

struct saving {
	const char *path;
	const struct weir_save_options *options;
	struct item *items;
	size_t n, max;
	size_t *order; /* order of the items with entries */
	size_t n_written;
	char *text; /* the header */
	size_t text_at, text_size;
	bool no_memory;
};

/* ---- Text --------------------------------------------------------------- */

static void
put_bytes(struct saving *s, const char *bytes, size_t n)
{
	while (!s->no_memory && s->text_size - s->text_at < n) {
		size_t more = s->text_size == 0 ? 4096 : s->text_size * 2;
		char *text = meta_alloc(more);

		if (text == NULL) {
			s->no_memory = true;
			return;
		}
		if (s->text_at > 0)
			memcpy(text, s->text, s->text_at);
		meta_free(s->text, s->text_size);
		s->text = text;
		s->text_size = more;
	}
	if (s->no_memory)
		return;
	memcpy(s->text + s->text_at, bytes, n);
	s->text_at += n;
}

static void put_header_text(struct saving *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void
put_header_text(struct saving *s, const char *format, ...)
{
	char text[160];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	put_bytes(s, text, (size_t)n);
}

/* Write the content of a JSON text. */
static void
put_json_text(struct saving *s, const char *text)
{
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			put_header_text(s, "\\%c", c);
		else if (c < 0x20)
			put_header_text(s, "\\u%04x", c);
		else
			put_bytes(s, text, 1);
	}
}

static void
put_name(struct saving *s, const struct item *item)
{
	if (item->name == NULL)
		put_header_text(s, "weir.storage.%zu", item->number);
	else
		put_json_text(s, item->name);
}

/* ---- Items -------------------------------------------------------------- */

static bool
is_reserved(const char *text)
{
	return strncmp(text, "weir.", 5) == 0 ||
	    strcmp(text, "__metadata__") == 0;
}

/* Is it valid UTF-8, as JSON requires? */
static bool
is_utf8(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	while (*at != 0) {
		unsigned more = *at < 0x80    ? 0 :
		    *at >= 0xc2 && *at < 0xe0 ? 1 :
		    *at >= 0xe0 && *at < 0xf0 ? 2 :
		    *at >= 0xf0 && *at < 0xf5 ? 3 :
						9;
		unsigned char first = *at++;

		if (more == 9 || (first == 0xe0 && *at < 0xa0) ||
		    (first == 0xed && *at > 0x9f) ||
		    (first == 0xf0 && *at < 0x90) ||
		    (first == 0xf4 && *at > 0x8f))
			return false;
		for (; more > 0; more--) {
			if ((*at++ & 0xc0) != 0x80)
				return false;
		}
	}
	return true;
}

static enum weir_status
check_named(const struct weir_named *named, size_t i)
{
	if (named->tensor == NULL || named->name == NULL)
		return status_set(
		    WEIR_EINVAL, "%s: name or tensor %zu is NULL", caller, i);
	if (named->name[0] == '\0' || is_reserved(named->name) ||
	    !is_utf8(named->name))
		return status_set(WEIR_EINVAL,
		    "%s: '%.100s' is not a name that a tensor can have", caller,
		    named->name);
	return WEIR_OK;
}

static int
compare_names(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static void
item_range(struct item *item)
{
	struct weir_layout layout = tensor_layout(item->tensor);
	int64_t low, high;

	item->bytes =
	    (uint64_t)item->tensor->elements * weir_dtype_size(layout.dtype);
	layout_bounds(&layout, &low, &high);
	item->low = (uintptr_t)tensor_data(item->tensor) + (uintptr_t)low;
	item->high = (uintptr_t)tensor_data(item->tensor) + (uintptr_t)high;
}

/* Each item needs at most one more, for the memory of a group. */
static enum weir_status
make_items(struct saving *s, const struct weir_named *tensors, size_t n)
{
	s->max = 2 * n + 1;
	s->items = meta_zalloc(s->max * sizeof(*s->items));
	s->order = meta_alloc(s->max * sizeof(*s->order));
	if (s->items == NULL || s->order == NULL)
		return status_set(WEIR_EHOSTMEM, "%s: no host memory", caller);
	for (size_t i = 0; i < n; i++) {
		enum weir_status status = check_named(&tensors[i], i);

		if (status != WEIR_OK)
			return status;
		s->items[i] = (struct item){ .name = tensors[i].name,
			.tensor = tensors[i].tensor,
			.holder = NONE };
		item_range(&s->items[i]);
	}
	s->n = n;
	if (n > 1)
		qsort(s->items, n, sizeof(*s->items), compare_names);
	for (size_t i = 1; i < n; i++) {
		if (compare_names(&s->items[i - 1], &s->items[i]) == 0)
			return status_set(WEIR_EINVAL,
			    "%s: the name '%.100s' is there twice", caller,
			    s->items[i].name);
	}
	return WEIR_OK;
}

/* ---- Shared memory ------------------------------------------------------ */

/* Order by storage, then by beginning, the longest first; contiguous items
 * before others. */
static int
compare_memory(const struct item *x, const struct item *y)
{
	uintptr_t a = (uintptr_t)x->tensor->storage;
	uintptr_t b = (uintptr_t)y->tensor->storage;

	if (a != b)
		return a < b ? -1 : 1;
	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	if (x->high != y->high)
		return x->high > y->high ? -1 : 1;
	if (x->tensor->contiguous != y->tensor->contiguous)
		return x->tensor->contiguous ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int
compare_places(const void *a, const void *b, void *items)
{
	const struct item *all = items;

	return compare_memory(
	    &all[*(const size_t *)a], &all[*(const size_t *)b]);
}

/* Make an item for the bytes that a run of items touches. */
static enum weir_status
make_holder(struct saving *s, const struct item *first, uintptr_t high)
{
	struct weir_storage *storage = first->tensor->storage;
	int64_t bytes = (int64_t)(high - first->low);
	struct weir_layout layout = { .struct_size = sizeof(layout),
		.dtype = WEIR_UINT8,
		.ndim = 1,
		.shape = &bytes,
		.offset_bytes = first->low - (uintptr_t)storage->data };
	struct item *item = &s->items[s->n];
	struct weir_tensor *tensor;
	enum weir_status status = tensor_make(
	    caller, storage, &layout, first->tensor->stream, &tensor);

	if (status != WEIR_OK)
		return status;
	*item = (struct item){ .number = s->n,
		.tensor = tensor,
		.owned = tensor,
		.low = first->low,
		.high = high,
		.bytes = (uint64_t)bytes,
		.holder = NONE };
	s->n++;
	return WEIR_OK;
}

/*
 * A run is a list of items of one storage whose bytes overlap or touch. If the
 * first item contains all of it, the others are views of that; else all are
 * views of a holder.
 */
static enum weir_status
share_run(struct saving *s, const size_t *run, size_t n, uintptr_t high)
{
	struct item *first = &s->items[run[0]];
	ptrdiff_t holder = (ptrdiff_t)run[0];
	enum weir_status status = WEIR_OK;

	if (n == 1)
		return WEIR_OK;
	if (first->high != high || !first->tensor->contiguous) {
		holder = (ptrdiff_t)s->n;
		status = make_holder(s, first, high);
		if (status != WEIR_OK)
			return status;
	}
	for (size_t i = 0; i < n; i++) {
		if ((ptrdiff_t)run[i] != holder)
			s->items[run[i]].holder = holder;
	}
	return WEIR_OK;
}

static enum weir_status
find_shared(struct saving *s)
{
	size_t n = s->n, start = 0;
	enum weir_status status = WEIR_OK;

	for (size_t i = 0; i < n; i++)
		s->order[i] = i;
	if (n > 1)
		qsort_r(
		    s->order, n, sizeof(*s->order), compare_places, s->items);
	while (start < n && status == WEIR_OK) {
		const struct item *first = &s->items[s->order[start]];
		uintptr_t high = first->high;
		size_t end = start + 1;

		for (; end < n; end++) {
			const struct item *next = &s->items[s->order[end]];

			if (next->tensor->storage != first->tensor->storage ||
			    next->bytes == 0 || next->low >= high)
				break;
			if (next->high > high)
				high = next->high;
		}
		if (first->bytes > 0)
			status =
			    share_run(s, s->order + start, end - start, high);
		start = end;
	}
	return status;
}

/* ---- Entries ------------------------------------------------------------ */

static int
compare_written(const void *a, const void *b, void *items)
{
	const struct item *all = items;
	const struct item *x = &all[*(const size_t *)a];
	const struct item *y = &all[*(const size_t *)b];
	size_t x_size = weir_dtype_size(x->tensor->dtype);
	size_t y_size = weir_dtype_size(y->tensor->dtype);

	/* The largest elements come first, so that all are aligned to their
	 * size. */
	if (x_size != y_size)
		return x_size > y_size ? -1 : 1;
	return *(const size_t *)a < *(const size_t *)b ? -1 : 1;
}

/* Order what reads a tensor next after all known work on it: the host, which
 * reads its own memory at once, or the stream that makes the tensor contiguous.
 * Contiguous memory of a device is read in that order in any case. */
static enum weir_status
order_reads(const struct weir_tensor *tensor, weir_stream stream)
{
	if (memory_is_host(tensor->storage->memory))
		return weir_tensor_synchronize(tensor);
	return tensor->contiguous ? WEIR_OK : weir_tensor_join(tensor, stream);
}

static enum weir_status
place_written(struct saving *s)
{
	uint64_t at = 0;

	s->n_written = 0;
	for (size_t i = 0; i < s->n; i++) {
		if (s->items[i].holder == NONE)
			s->order[s->n_written++] = i;
	}
	if (s->n_written > 1)
		qsort_r(s->order, s->n_written, sizeof(*s->order),
		    compare_written, s->items);
	for (size_t i = 0; i < s->n_written; i++) {
		struct item *item = &s->items[s->order[i]];
		const struct weir_tensor *tensor = item->tensor;
		weir_stream stream =
		    tensor->stream == WEIR_STREAM_ANY ? NULL : tensor->stream;
		struct weir_tensor *dense;
		enum weir_status status = order_reads(tensor, stream);

		if (status != WEIR_OK)
			return status;
		item->at = at;
		at += item->bytes;
		item->source = tensor;
		if (tensor->contiguous)
			continue;
		status = weir_tensor_contiguous(tensor, stream, &dense);
		if (status != WEIR_OK)
			return status;
		item->owned = dense;
		item->source = dense;
	}
	return WEIR_OK;
}

static void
put_entry(struct saving *s, const struct item *item)
{
	const struct weir_tensor *t = item->tensor;
	const char *dtype = header_dtype_name(t->dtype);
	bool wide = t->dtype == WEIR_COMPLEX128;

	if (dtype == NULL)
		dtype = wide ? "F64" : "U8";
	put_header_text(s, ",\"");
	put_name(s, item);
	put_header_text(s, "\":{\"dtype\":\"%s\",\"shape\":[", dtype);
	for (int i = 0; i < t->ndim; i++)
		put_header_text(s, "%s%lld", i == 0 ? "" : ",",
		    (long long)tensor_shape(t)[i]);
	if (wide)
		put_header_text(s, "%s2", t->ndim == 0 ? "" : ",");
	put_header_text(s, "],\"data_offsets\":[%llu,%llu]}",
	    (unsigned long long)item->at,
	    (unsigned long long)item->at + item->bytes);
}

/* Write "float32 128 2 3 4 1 3 NAME": type, offset in the holder in bytes,
 * ndim, shape and strides, the holder's name. */
static void
put_view(struct saving *s, const struct item *item)
{
	const struct weir_tensor *t = item->tensor;
	const struct item *holder = &s->items[item->holder];
	uintptr_t first = (uintptr_t)tensor_data(t);

	put_header_text(s, ",\"weir.view.");
	put_name(s, item);
	put_header_text(s, "\":\"%s %llu %d", weir_dtype_name(t->dtype),
	    (unsigned long long)(first - holder->low), t->ndim);
	for (int i = 0; i < 2 * t->ndim; i++)
		put_header_text(s, " %lld", (long long)t->sizes[i]);
	put_header_text(s, " ");
	put_name(s, holder);
	put_header_text(s, "\"");
}

static void
place_text(const struct weir_tensor *tensor, char *text, size_t size)
{
	const struct weir_storage *storage = tensor->storage;

	switch (storage->memory) {
	case WEIR_MEMORY_HOST:
		snprintf(text, size, "cpu");
		break;
	case WEIR_MEMORY_PINNED:
		snprintf(text, size, "pinned");
		break;
	default:
		snprintf(text, size, "cuda:%d", storage->device);
	}
}

static void
put_weir_metadata(struct saving *s)
{
	char common[32] = "cpu", place[32];

	if (s->n > 0)
		place_text(s->items[0].tensor, common, sizeof(common));
	put_header_text(s, "{\"__metadata__\":{\"weir.place\":\"%s\"", common);
	for (size_t i = 0; i < s->n; i++) {
		const struct item *item = &s->items[i];

		if (item->holder != NONE) {
			put_view(s, item);
			continue;
		}
		place_text(item->tensor, place, sizeof(place));
		if (strcmp(place, common) != 0) {
			put_header_text(s, ",\"weir.place.");
			put_name(s, item);
			put_header_text(s, "\":\"%s\"", place);
		}
		if (header_dtype_name(item->tensor->dtype) == NULL) {
			put_header_text(s, ",\"weir.dtype.");
			put_name(s, item);
			put_header_text(s, "\":\"%s\"",
			    weir_dtype_name(item->tensor->dtype));
		}
	}
}

static enum weir_status
put_user_metadata(struct saving *s)
{
	const char *const *at =
	    s->options != NULL ? s->options->metadata : NULL;

	for (; at != NULL && at[0] != NULL; at += 2) {
		if (at[1] == NULL || is_reserved(at[0]) || !is_utf8(at[0]) ||
		    !is_utf8(at[1]))
			return status_set(WEIR_EINVAL,
			    "%s: '%.100s' is not a key that metadata can have, "
			    "or has no value",
			    caller, at[0]);
		put_header_text(s, ",\"");
		put_json_text(s, at[0]);
		put_header_text(s, "\":\"");
		put_json_text(s, at[1]);
		put_header_text(s, "\"");
	}
	return WEIR_OK;
}

/* Write the header, with its length before it, and with blanks after it so that
 * the elements begin at a multiple of 8. */
static enum weir_status
write_header(struct saving *s)
{
	uint64_t length;
	enum weir_status status;

	put_bytes(s, "\0\0\0\0\0\0\0\0", LENGTH_BYTES);
	put_weir_metadata(s);
	status = put_user_metadata(s);
	if (status != WEIR_OK)
		return status;
	put_header_text(s, "}");
	for (size_t i = 0; i < s->n_written; i++)
		put_entry(s, &s->items[s->order[i]]);
	put_header_text(s, "}");
	while (s->text_at % 8 != 0 && !s->no_memory)
		put_header_text(s, " ");
	if (s->no_memory)
		return status_set(
		    WEIR_EHOSTMEM, "%s: no host memory for a header", caller);
	length = s->text_at - LENGTH_BYTES;
	if (length > HEADER_MAX)
		return status_set(WEIR_EINVAL,
		    "%s: the header would have %llu bytes, more than %d",
		    caller, (unsigned long long)length, HEADER_MAX);
	for (int i = 0; i < LENGTH_BYTES; i++)
		s->text[i] = (char)(length >> (8 * i) & 0xff);
	return WEIR_OK;
}

/* ---- The file ----------------------------------------------------------- */

static enum weir_status
save_failed(const struct saving *s, const char *what)
{
	int error = errno;

	status_set(WEIR_EFILE, "%s: %s: %s", s->path, what, strerror(error));
	return status_errno(WEIR_EFILE, error);
}

static enum weir_status
write_text(const struct saving *s, int file)
{
	errno = quiet_write(file, s->text, s->text_at);
	return errno == 0 ? WEIR_OK : save_failed(s, "writing the header");
}

static enum weir_status
write_elements(const struct saving *s, int file)
{
	struct transfer transfer = { .file = file,
		.path = s->path,
		.to_file = true,
		.progress = s->options != NULL ? s->options->progress : NULL,
		.closure = s->options != NULL ? s->options->closure : NULL };
	struct piece *pieces = meta_alloc((s->n_written + 1) * sizeof(*pieces));
	enum weir_status status;

	if (pieces == NULL)
		return status_set(WEIR_EHOSTMEM, "%s: no host memory", caller);
	for (size_t i = 0; i < s->n_written; i++) {
		const struct item *item = &s->items[s->order[i]];

		if (item->bytes > 0)
			pieces[transfer.n_pieces++] =
			    (struct piece){ .tensor = item->source,
				    .at = s->text_at + item->at,
				    .bytes = item->bytes };
	}
	transfer.pieces = pieces;
	status = transfer_run(&transfer);
	meta_free(pieces, (s->n_written + 1) * sizeof(*pieces));
	return status;
}

static enum weir_status
write_tensors(const struct saving *s)
{
	size_t size = strlen(s->path) + 32;
	enum weir_status status;
	int file;

	if (out_is_special(s->path)) {
		status_set(WEIR_EFILE,
		    "%s: cannot be written: it is no plain file", s->path);
		return status_errno(WEIR_EFILE, EINVAL);
	}
	char *name = meta_alloc(size);
	if (name == NULL)
		return status_set(WEIR_EHOSTMEM, "%s: no host memory", caller);
	snprintf(
	    name, size, "%s.%u.%u", s->path, os_process_id(), os_thread_id());
	file = open(
	    name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file < 0) {
		status = save_failed(s, "making the file");
		meta_free(name, size);
		return status;
	}
	status = write_text(s, file);
	if (status == WEIR_OK)
		status = write_elements(s, file);
	if (close(file) != 0 && status == WEIR_OK)
		status = save_failed(s, "closing the file");
	if (status == WEIR_OK && rename(name, s->path) != 0)
		status = save_failed(s, "renaming the file");
	if (status != WEIR_OK)
		unlink(name);
	meta_free(name, size);
	return status;
}

static void
drop_saving(struct saving *s)
{
	for (size_t i = 0; i < s->n; i++)
		weir_tensor_destroy(s->items[i].owned);
	meta_free(s->items, s->max * sizeof(*s->items));
	meta_free(s->order, s->max * sizeof(*s->order));
	meta_free(s->text, s->text_size);
}

enum weir_status
weir_save(const char *path, const struct weir_named *tensors, size_t n,
    const struct weir_save_options *options)
{
	struct saving s = { .path = path, .options = options };
	enum weir_status status;

	if (path == NULL || (tensors == NULL && n > 0) ||
	    n > SIZE_MAX / 4 / sizeof(struct item) ||
	    (options != NULL && options->struct_size < sizeof(*options)))
		return status_set(WEIR_EINVAL,
		    "%s: path or tensors is NULL, n %zu is too large, or "
		    "struct_size is not set",
		    caller, n);
	status = make_items(&s, tensors, n);
	if (status == WEIR_OK)
		status = find_shared(&s);
	if (status == WEIR_OK)
		status = place_written(&s);
	if (status == WEIR_OK)
		status = write_header(&s);
	if (status == WEIR_OK)
		status = write_tensors(&s);
	drop_saving(&s);
	return status;
}
