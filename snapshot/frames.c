/*
 * Places in the code, in a hash table by address, and their texts in one
 * buffer. Both grow by doubling and are freed when the snapshot has been
 * written.
 */
#include "snapshot/frames.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "base/meta.h"
#include "snapshot/tuning.h"
#include "stacks/python.h"
#include "stacks/stack.h"

/* A named frame. An address in inlined code has several. */
struct place {
	size_t name; /* offsets in the texts */
	size_t file;
	unsigned line;
	bool last; /* the last one of its address */
	/* Python's interpreter, replaced by the frames it runs. */
	bool evaluates;
	bool ours; /* belongs to weir: left out at the inner end */
	memo memo;
};

struct entry {
	const void *word; /* address or Python frame; NULL: unused */
	size_t first;     /* index of its first place */
};

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
	struct entry *entries;
	size_t slots; /* a power of two */
	size_t used;
	/* Weir's library, or NULL if weir is in the program. */
	const char *object;
	bool incomplete;
	memo name_key;
	memo file_key;
	memo line_key;
};

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

static bool
describe_c(struct frames *f, const void *word)
{
	struct stack_place places[FRAME_PLACES];
	size_t n = stack_describe(word, places, FRAME_PLACES);

	for (size_t i = 0; i < n; i++) {
		const struct stack_place *p = &places[i];
		char name[sizeof(p->object) + 32];
		const char *slash = strrchr(p->object, '/');
		if (p->function[0] != '\0')
			snprintf(name, sizeof(name), "%s", p->function);
		else if (p->object[0] != '\0')
			snprintf(name, sizeof(name), "%s+0x%zx",
			    slash != NULL ? slash + 1 : p->object, p->offset);
		else
			snprintf(name, sizeof(name), "%p", word);
		if (!add_place(f, name,
			p->file[0] != '\0'       ? p->file :
			    p->object[0] != '\0' ? p->object :
						   "??",
			p->line))
			return false;
		place_at(f, place_count(f) - 1)->ours = f->object != NULL &&
		    strncmp(p->object, f->object, sizeof(p->object) - 1) == 0;
	}
	return n > 0;
}

static bool
describe_word(struct frames *f, const void *word)
{
	if (!python_is_frame(word))
		return describe_c(f, word);
	struct python_place place = python_describe(word);
	return add_place(f, place.function, place.file, place.line);
}

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

/* Find or add the first place of a word; false without memory. */
static bool
look_up(struct frames *f, const void *word, size_t *first)
{
	if (!grow_entries(f))
		return false;
	struct entry *entry = find_frame(f, word);
	if (entry->word == NULL) {
		size_t at = place_count(f);
		if (!describe_word(f, word)) {
			f->places.n = at * sizeof(struct place);
			return false;
		}
		place_at(f, place_count(f) - 1)->last = true;
		*entry = (struct entry){ word, at };
		f->used++;
	}
	*first = entry->first;
	return true;
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
	const char *slash = strrchr(file, '/');
	const char *base = slash != NULL ? slash + 1 : file;
	char line[2 * sizeof(((struct stack_place *)NULL)->function)];

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
	meta_free(f->entries, f->slots * sizeof(*f->entries));
	meta_free(f, sizeof(*f));
}

bool
frames_complete(const struct frames *f)
{
	return !f->incomplete;
}
