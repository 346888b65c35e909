/*
 * Each code object that is seen gets a number. Its name and file are stored at
 * that moment, so that frames can be named later without Python.
 *
 * On a thread that holds Python's lock, a reference to the code object is kept,
 * so that no other object gets its address. The table is bounded because these
 * references are never dropped. Without the lock no reference can be taken
 * (python_layout.h): another code object may get the address later, so the
 * names are compared each time.
 *
 * The table is read without a lock and added to under weir's lock: a Python
 * built without its own lock runs several threads here at once.
 */
#include "stacks/python.h"

#include <dlfcn.h>
#include <string.h>

#include "base/lock.h"
#include "stacks/python_layout.h"
#include "stacks/text.h"
#include "stacks/tuning.h"

typedef struct object object; /* a PyObject */

/* X(name, result, params): the calls of Python that are used, all public. */
#define PYTHON_CALLS(X)                                                        \
	X(Py_IsInitialized, int, (void))                                       \
	X(PyGILState_Check, int, (void))                                       \
	X(PyGILState_GetThisThreadState, void *, (void))                       \
	X(PyEval_GetFrame, object *, (void))                                   \
	X(PyFrame_GetBack, object *, (object *))                               \
	X(PyFrame_GetCode, object *, (object *))                               \
	X(PyFrame_GetLineNumber, int, (object *))                              \
	X(PyObject_GetAttrString, object *, (object *, const char *))          \
	X(PyUnicode_AsUTF8AndSize, const char *, (object *, ptrdiff_t *))      \
	X(PyErr_Fetch, void, (object **, object **, object **))                \
	X(PyErr_Restore, void, (object *, object *, object *))                 \
	X(PyErr_Clear, void, (void))                                           \
	X(Py_IncRef, void, (object *))                                         \
	X(Py_DecRef, void, (object *))

static struct {
#define CALL_FIELD(name, result, params) result(*name) params;
	PYTHON_CALLS(CALL_FIELD)
#undef CALL_FIELD
	/* Returns the thread state that runs Python, without waiting. Its name
	 * differs between versions; NULL if the interpreter lacks it. */
	void *(*current)(void);
} py;

atomic_bool python_is_found;

static _Thread_local struct {
	void *frames[PYTHON_HELD];
	size_t n;
} held;

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_HISTORY);

/* Codes by number, from 1 on, and hash buckets of numbers. Both are written
 * under the lock; a code is stored before its number is published. */
static struct code {
	const object *object;
	bool kept;         /* a reference keeps the object */
	uint32_t function; /* numbers of texts */
	uint32_t file;
} codes[PYTHON_CODES];
static _Atomic uint32_t buckets[PYTHON_BUCKETS];
static uint32_t count = 1;

/* ---- Finding ----------------------------------------------------------- */

static bool
find_python_calls(void) HOLDS(lock)
{
	bool all = true;

	/* POSIX stores a pointer to a function in a void *. */
#define CALL_FIND(name, result, params)                                        \
	*(void **)&py.name = dlsym(RTLD_DEFAULT, #name);                       \
	all = all && py.name != NULL;
	PYTHON_CALLS(CALL_FIND)
#undef CALL_FIND
	*(void **)&py.current =
	    dlsym(RTLD_DEFAULT, "PyThreadState_GetUnchecked");
	if (py.current == NULL)
		*(void **)&py.current =
		    dlsym(RTLD_DEFAULT, "_PyThreadState_UncheckedGet");
	return all && py.current != NULL;
}

void
python_look(void)
{
	lock_enter(&lock);
	if (!python_found() && find_python_calls()) {
		layout_find();
		atomic_store_explicit(
		    &python_is_found, true, memory_order_release);
	}
	lock_leave(&lock);
}

/*
 * Does this thread hold Python's lock? With several interpreters
 * PyGILState_Check() says yes for every thread, so the thread states are
 * compared too.
 */
static bool
may_ask(void)
{
	if (py.Py_IsInitialized() == 0 || py.PyGILState_Check() != 1)
		return false;
	const void *state = py.current();

	return state != NULL && state == py.PyGILState_GetThisThreadState();
}

/* ---- Codes ------------------------------------------------------------- */

static uint32_t
text_of_attribute(object *from, const char *attribute)
{
	uint32_t id = TEXT_NONE;
	object *value = py.PyObject_GetAttrString(from, attribute);

	if (value != NULL) {
		const char *text = py.PyUnicode_AsUTF8AndSize(value, NULL);
		if (text != NULL && text_intern(text, &id) != WEIR_OK)
			id = TEXT_OTHER;
		py.Py_DecRef(value);
	}
	py.PyErr_Clear();
	return id;
}

/* A code to look for; its names are set if no reference keeps it. */
struct wanted {
	const object *object;
	const char *function;
	const char *file;
};

static bool
same_code(const struct code *known, const struct wanted *wanted)
{
	if (known->object != wanted->object)
		return false;
	if (known->kept || wanted->function == NULL)
		return known->kept && wanted->function == NULL;
	return strcmp(text_get(known->function), wanted->function) == 0 &&
	    strcmp(text_get(known->file), wanted->file) == 0;
}

/* The number of a code, or 0; then *empty is the bucket where it belongs. */
static uint32_t
find_code(const struct wanted *wanted, _Atomic uint32_t **empty)
{
	uint64_t hash =
	    (uint64_t)(uintptr_t)wanted->object * 0x9e3779b97f4a7c15u;

	for (uint64_t i = hash >> 47;; i++) {
		_Atomic uint32_t *bucket = &buckets[i % PYTHON_BUCKETS];
		uint32_t number =
		    atomic_load_explicit(bucket, memory_order_acquire);
		*empty = bucket;
		if (number == 0 || same_code(&codes[number], wanted))
			return number;
	}
}

/* Give a new code a number; 0 if the table is full. */
static uint32_t
add_code(const struct wanted *wanted, const struct code *code) HOLDS(lock)
{
	_Atomic uint32_t *bucket;
	uint32_t number = find_code(wanted, &bucket);

	if (number != 0 || count == PYTHON_CODES)
		return number;
	codes[count] = *code;
	atomic_store_explicit(bucket, count, memory_order_release);
	return count++;
}

/* Find or assign the number of a code; 0 if the table is full. */
static uint32_t
number_of_code(object *object)
{
	const struct wanted wanted = { .object = object };
	_Atomic uint32_t *bucket;
	uint32_t number = find_code(&wanted, &bucket);

	if (number != 0)
		return number;
	/* Python is called without weir's lock. The reference is never dropped.
	 */
	struct code code = { .object = object,
		.kept = true,
		.function = text_of_attribute(object, "co_name"),
		.file = text_of_attribute(object, "co_filename") };
	py.Py_IncRef(object);
	lock_enter(&lock);
	number = add_code(&wanted, &code);
	lock_leave(&lock);
	if (number == 0)
		py.Py_DecRef(object);
	return number;
}

/* number_of_code() without Python's lock; 0 also if the code cannot be read. */
static uint32_t
number_unlocked(const void *object)
{
	char function[LAYOUT_TEXT];
	char file[LAYOUT_TEXT];
	const struct wanted wanted = { object, function, file };
	struct code code = { .object = object };
	_Atomic uint32_t *bucket;

	if (!layout_names(object, function, file))
		return 0;
	uint32_t number = find_code(&wanted, &bucket);
	if (number != 0)
		return number;
	if (text_intern(function, &code.function) != WEIR_OK ||
	    text_intern(file, &code.file) != WEIR_OK)
		return 0;
	lock_enter(&lock);
	number = add_code(&wanted, &code);
	lock_leave(&lock);
	return number;
}

/* ---- Taking ------------------------------------------------------------ */

static void *
make_word(uint64_t number, int line)
{
	return (void *)(uintptr_t)((uint64_t)1 << 63 | number << 32 |
	    (line > 0 ? (unsigned)line : 0));
}

static void *
word_of(object *frame)
{
	object *code = py.PyFrame_GetCode(frame);
	int line = py.PyFrame_GetLineNumber(frame);
	uint64_t number = number_of_code(code);

	py.Py_DecRef(code);
	return make_word(number, line);
}

void
python_hold(void)
{
	held.n = 0;
	if (python_found())
		held.n = python_capture(held.frames, PYTHON_HELD);
}

void
python_drop(void)
{
	held.n = 0;
}

/* Copy the frames that python_hold() has taken. */
static size_t
recall_held(void **frames, size_t n)
{
	size_t found = held.n < n ? held.n : n;

	memcpy(frames, held.frames, found * sizeof(*frames));
	return found;
}

/* Read the frames of a thread that does not hold Python's lock. */
static size_t
capture_unlocked(void **frames, size_t n)
{
	struct layout_walk walk;
	size_t found = 0;

	if (!layout_begin(&walk))
		return 0;
	while (found < n && layout_next(&walk))
		frames[found++] =
		    make_word(number_unlocked(walk.code), walk.line);
	layout_end(&walk);
	return found;
}

size_t
python_capture(void **frames, size_t n)
{
	object *type;
	object *value;
	object *traceback;
	size_t found = 0;

	if (!may_ask())
		return held.n > 0 ? recall_held(frames, n) :
				    capture_unlocked(frames, n);
	object *frame = py.PyEval_GetFrame();
	if (frame == NULL)
		return 0;
	/* Save the exception that is being raised on this thread. */
	py.PyErr_Fetch(&type, &value, &traceback);
	py.Py_IncRef(frame);
	while (frame != NULL && found < n) {
		frames[found++] = word_of(frame);
		object *back = py.PyFrame_GetBack(frame);
		py.Py_DecRef(frame);
		frame = back;
	}
	if (frame != NULL)
		py.Py_DecRef(frame);
	py.PyErr_Restore(type, value, traceback);
	return found;
}

struct python_place
python_describe(const void *word)
{
	uint64_t bits = (uintptr_t)word;
	uint32_t number = bits >> 32 & (PYTHON_CODES - 1);
	const struct code *code = &codes[number];

	if (number == 0)
		return (struct python_place){ "(too many functions)", "", 0 };
	return (struct python_place){ text_get(code->function),
		text_get(code->file), (uint32_t)bits };
}
