/*
 * Places in the code, in a hash table by address, and their texts in one
 * buffer. Both grow by doubling and are freed when the snapshot has been
 * written. Addresses wait in a queue, because one helper names many.
 */
#include "snapshot/frames.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "base/meta.h"
#include "snapshot/tuning.h"
#include "stacks/names.h"
#include "stacks/python.h"
#include "stacks/stack.h"

/* A named frame. An address in inlined code has several. */
struct place {
	size_t name; /* offsets in the texts */
	size_t file;
	/* For readers, if the helper has not named it: where it is. */
	size_t module;
	size_t build_id;
	uint64_t offset;
	bool unnamed;
	unsigned line;
	bool last; /* the last one of its address */
	/* Python's interpreter, replaced by the frames it runs. */
	bool evaluates;
	bool ours; /* belongs to weir: left out at the inner end */
	memo memo;
};

struct entry {
	const void *word; /* address or Python frame; NULL: unused */
	size_t first;     /* index of its first place; no_place: none yet */
};

static const size_t no_place = SIZE_MAX;

/* A buffer that grows: `n` of `room` bytes are used. */
struct store {
	char *at;
	size_t n;
	size_t room;
};

struct frames {
	const struct stack_table *table;
	memo *stacks; /* indexed by number */
	size_t stacks_bytes;
	struct store texts;
	struct store places;
	struct store queue; /* addresses without places */
	struct names names;
	struct entry *entries;
	size_t slots; /* a power of two */
	size_t used;
	/* Weir's library, or NULL if weir is in the program. */
	const char *object;
	bool incomplete;
	memo name_key;
	memo file_key;
	memo line_key;
	memo module_key;
	memo build_id_key;
	memo offset_key;
};

static const char *
file_name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

/* ---- Storing ----------------------------------------------------------- */

/* Make room for n more bytes; false without memory. */
static bool
store_grow(struct store *store, size_t n)
{
	size_t room = store->room > 0 ? store->room : FRAMES_FIRST_BYTES;

	if (store->room - store->n >= n)
		return true;
	while (room - store->n < n)
		room *= 2;
	char *at = meta_alloc(room);
	if (at == NULL)
		return false;
	if (store->n > 0)
		memcpy(at, store->at, store->n);
	meta_free(store->at, store->room);
	store->at = at;
	store->room = room;
	return true;
}

static bool
frames_add_text(struct frames *f, const char *text, size_t *offset)
{
	size_t size = strlen(text) + 1;

	if (!store_grow(&f->texts, size))
		return false;
	*offset = f->texts.n;
	memcpy(f->texts.at + f->texts.n, text, size);
	f->texts.n += size;
	return true;
}

static struct place *
place_at(struct frames *f, size_t i)
{
	return &((struct place *)(void *)f->places.at)[i];
}

static size_t
place_count(const struct frames *f)
{
	return f->places.n / sizeof(struct place);
}

static bool
add_place(struct frames *f, const char *name, const char *file, unsigned line)
{
	struct place place = { .line = line };

	if (!frames_add_text(f, name, &place.name) ||
	    !frames_add_text(f, file, &place.file) ||
	    !store_grow(&f->places, sizeof(place)))
		return false;
	place.evaluates = strncmp(name, "_PyEval_EvalFrame", 17) == 0;
	f->places.n += sizeof(place);
	*place_at(f, place_count(f) - 1) = place;
	return true;
}

/* ---- Naming ------------------------------------------------------------ */

static struct entry *
find_frame(const struct frames *f, const void *word)
{
	uint64_t hash = (uint64_t)(uintptr_t)word * 0x9e3779b97f4a7c15u;

	for (uint64_t i = hash >> 20;; i++) {
		struct entry *entry = &f->entries[i & (f->slots - 1)];
		if (entry->word == NULL || entry->word == word)
			return entry;
	}
}

static bool
grow_entries(struct frames *f)
{
	struct entry *old = f->entries;
	size_t n = f->slots;

	if (f->used * 2 < n)
		return true;
	size_t slots = n > 0 ? 2 * n : FRAMES_FIRST_ENTRIES;
	struct entry *entries = meta_zalloc(slots * sizeof(*entries));
	if (entries == NULL)
		return false;
	f->entries = entries;
	f->slots = slots;
	for (size_t i = 0; i < n; i++)
		if (old[i].word != NULL)
			*find_frame(f, old[i].word) = old[i];
	meta_free(old, n * sizeof(*old));
	return true;
}

/* Add a place of an address. One without a function has the object's name and
 * the offset, and where it is known where it is, readers may name it. */
static bool
add_c_place(struct frames *f, const void *word, const struct name_frame *frame,
    const struct name_place *p)
{
	const char *object = file_name_of(frame->module);
	char name[NAME_TEXT + 32];

	if (p->function[0] != '\0')
		snprintf(name, sizeof(name), "%s", p->function);
	else if (object[0] != '\0')
		snprintf(name, sizeof(name), "%.*s+0x%llx", NAME_TEXT, object,
		    (unsigned long long)frame->offset);
	else
		snprintf(name, sizeof(name), "%p", word);
	if (!add_place(f, name,
		p->file[0] != '\0'           ? p->file :
		    frame->module[0] != '\0' ? frame->module :
					       "??",
		p->line))
		return false;
	struct place *place = place_at(f, place_count(f) - 1);

	place->ours =
	    f->object != NULL && strcmp(frame->module, f->object) == 0;
	place->unnamed = !frame->asked && frame->build_id[0] != '\0';
	place->offset = frame->offset;
	return !place->unnamed ||
	    (frames_add_text(f, frame->module, &place->module) &&
		frames_add_text(f, frame->build_id, &place->build_id));
}

/* Without memory for its places a frame is left out. */
static void
take_frame(void *user, size_t i, const struct name_frame *frame,
    const struct name_place *places, size_t n)
{
	struct frames *f = user;
	const void *word = ((const void **)(void *)f->queue.at)[i];
	size_t at = place_count(f);

	for (size_t k = 0; k < n; k++)
		if (!add_c_place(f, word, frame, &places[k])) {
			f->places.n = at * sizeof(struct place);
			return;
		}
	place_at(f, place_count(f) - 1)->last = true;
	find_frame(f, word)->first = at;
}

/* Have a word named: a Python frame now, an address by name_queue(). False
 * without memory. */
static bool
queue_word(struct frames *f, const void *word)
{
	/* The stack is being written. */
	if (word == NULL)
		return true;
	if (!grow_entries(f))
		return false;
	struct entry *entry = find_frame(f, word);

	if (entry->word != NULL)
		return true;
	size_t first = no_place;
	if (python_is_frame(word)) {
		struct python_place place = python_describe(word);

		first = place_count(f);
		if (!add_place(f, place.function, place.file, place.line))
			return false;
		place_at(f, first)->last = true;
	} else {
		if (!store_grow(&f->queue, sizeof(word)))
			return false;
		memcpy(f->queue.at + f->queue.n, &word, sizeof(word));
		f->queue.n += sizeof(word);
	}
	*entry = (struct entry){ word, first };
	f->used++;
	return true;
}

static void
queue_stack(struct frames *f, void *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!queue_word(f, words[i]))
			f->incomplete = true;
}

static void
name_queue(struct frames *f)
{
	names_find(&f->names, (const void *const *)(void *)f->queue.at,
	    f->queue.n / sizeof(void *), take_frame, f);
	f->queue.n = 0;
}

void
frames_ask(struct frames *f, uint32_t stack)
{
	void *const *words = NULL;
	size_t n = stack_table_frames(f->table, stack, &words);

	queue_stack(f, words, n);
}

void
frames_name_all(struct frames *f)
{
	for (size_t i = 0; i < stack_table_slots(f->table); i++) {
		void *const *words = NULL;
		size_t n = stack_table_slot(f->table, i, &words);

		queue_stack(f, words, n);
	}
	name_queue(f);
}

const char *
frames_lack(const struct frames *f)
{
	return f->names.lack;
}

/* Find the first place of a word that was queued; false if it has none. */
static bool
look_up(const struct frames *f, const void *word, size_t *first)
{
	const struct entry *entry;

	if (f->slots == 0)
		return false;
	entry = find_frame(f, word);
	*first = entry->first;
	return entry->word != NULL && entry->first != no_place;
}

/* ---- Walking a stack --------------------------------------------------- */

/* The receiver of the frames of a stack. */
struct sink {
	void (*put)(struct frames *f, struct place *place, struct sink *sink);
	struct writer *writer; /* of frames_write() */
	/* The number of lines that frames_tell() may still tell. */
	unsigned left;
	void (*tell)(void *user, const char *line);
	void *user;
};

/* Give the places of one word to the sink, except those of Python's
 * interpreter; true if there are such. */
static bool
put_word(struct frames *f, struct sink *sink, const void *word)
{
	bool evaluates = false;
	size_t i;

	if (!look_up(f, word, &i)) {
		f->incomplete = true;
		return false;
	}
	for (;; i++) {
		struct place *place = place_at(f, i);
		bool last = place->last;
		if (place->evaluates)
			evaluates = true;
		else
			sink->put(f, place, sink);
		if (last)
			return evaluates;
	}
}

/* Count the frames of weir itself at the inner end. */
static size_t
count_ours(struct frames *f, void *const *words, size_t n)
{
	size_t i;

	for (size_t k = 0; k < n; k++) {
		if (!look_up(f, words[k], &i)) {
			f->incomplete = true;
			return k;
		}
		if (!place_at(f, i)->ours)
			return k;
	}
	return 0;
}

/* In the words of a stack the Python frames follow the C frames. They are given
 * in the place of the innermost interpreter frame. */
static void
put_stack(struct frames *f, struct sink *sink, uint32_t stack)
{
	void *const *words = NULL;
	bool written = false;
	size_t n = 0;
	size_t c = 0;

	if (f->table != NULL)
		n = stack_table_frames(f->table, stack, &words);
	queue_stack(f, words, n);
	name_queue(f);
	while (c < n && !python_is_frame(words[c]))
		c++;
	for (size_t i = count_ours(f, words, c); i < c; i++) {
		if (!put_word(f, sink, words[i]) || written)
			continue;
		for (size_t k = c; k < n; k++)
			put_word(f, sink, words[k]);
		written = true;
	}
	for (size_t k = c; k < n && !written; k++)
		put_word(f, sink, words[k]);
}

/* ---- Writing ----------------------------------------------------------- */

static void
write_place(struct frames *f, struct place *place, struct sink *sink)
{
	struct writer *w = sink->writer;

	if (writer_again(w, place->memo))
		return;
	writer_dict(w);
	writer_key(w, "name", &f->name_key);
	writer_text(w, f->texts.at + place->name);
	writer_key(w, "filename", &f->file_key);
	writer_text(w, f->texts.at + place->file);
	writer_key(w, "line", &f->line_key);
	writer_uint(w, place->line);
	if (place->unnamed) {
		writer_key(w, "module", &f->module_key);
		writer_text(w, f->texts.at + place->module);
		writer_key(w, "build_id", &f->build_id_key);
		writer_text(w, f->texts.at + place->build_id);
		writer_key(w, "offset", &f->offset_key);
		writer_uint(w, place->offset);
	}
	writer_close(w);
	writer_keep(w, &place->memo);
}

void
frames_write(struct frames *f, struct writer *w, uint32_t stack)
{
	struct sink sink = { .put = write_place, .writer = w };

	if (writer_again(w, f->stacks[stack]))
		return;
	writer_list(w);
	put_stack(f, &sink, stack);
	writer_close(w);
	writer_keep(w, &f->stacks[stack]);
}

/* A place without a name has that of its object, and the offset. */
static void
tell_place(struct frames *f, struct place *place, struct sink *sink)
{
	const char *name = f->texts.at + place->name;
	const char *file = f->texts.at + place->file;
	const char *base = file_name_of(file);
	char line[2 * NAME_TEXT + 64];

	if (sink->left == 0)
		return;
	sink->left--;
	if (place->line > 0)
		snprintf(
		    line, sizeof(line), "%s (%s:%u)", name, base, place->line);
	else if (strncmp(name, base, strlen(base)) == 0 ||
	    strcmp(base, "??") == 0)
		snprintf(line, sizeof(line), "%s", name);
	else
		snprintf(line, sizeof(line), "%s (%s)", name, base);
	sink->tell(sink->user, line);
}

void
frames_tell(struct frames *f, uint32_t stack, unsigned most,
    void (*tell)(void *user, const char *line), void *user)
{
	struct sink sink = {
		.put = tell_place, .left = most, .tell = tell, .user = user
	};

	put_stack(f, &sink, stack);
}

/* The path of the library that contains weir; NULL if it is in the program. */
static const char *
own_object(void)
{
	struct link_map *map;
	Dl_info info;

	if (dladdr1((const void *)(uintptr_t)frames_new, &info, (void **)&map,
		RTLD_DL_LINKMAP) == 0 ||
	    map->l_name[0] == '\0')
		return NULL;
	return info.dli_fname;
}

struct frames *
frames_new(const struct stack_table *table, size_t stacks)
{
	struct frames *f = meta_zalloc(sizeof(*f));
	if (f == NULL)
		return NULL;
	f->table = table;
	f->object = own_object();
	f->stacks_bytes = (stacks + 1) * sizeof(*f->stacks);
	f->stacks = meta_map(f->stacks_bytes);
	if (f->stacks == NULL) {
		meta_free(f, sizeof(*f));
		return NULL;
	}
	return f;
}

void
frames_delete(struct frames *f)
{
	meta_unmap(f->stacks, f->stacks_bytes);
	meta_free(f->texts.at, f->texts.room);
	meta_free(f->places.at, f->places.room);
	meta_free(f->queue.at, f->queue.room);
	meta_free(f->entries, f->slots * sizeof(*f->entries));
	meta_free(f, sizeof(*f));
}

bool
frames_complete(const struct frames *f)
{
	return !f->incomplete;
}
