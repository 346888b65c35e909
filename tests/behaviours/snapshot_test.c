/*
 * docs/behaviours.md, rows on history and snapshots. The files are read as
 * users read them: by Python's pickle and json, or by a search for words in the
 * text.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/trace.h>

#include "tests/support/command.h"
#include "tests/support/device.h"

/* Neither inlined nor called in tail position, so that stacks have them. */
#define CALL(name, statement)                                                  \
	__attribute__((noinline)) static void name(void)                       \
	{                                                                      \
		statement;                                                     \
		__asm__ volatile("" ::: "memory");                             \
	}

static void *block;
CALL(the_allocation, block = take(311 * 411 * 4, NULL))
CALL(the_free, give(block))
CALL(the_trim, trim(0))

static void
start(enum weir_history_level level)
{
	struct weir_history history = { .struct_size = sizeof(history),
		.level = level };

	EXPECT_OK(weir_history_start(&history));
}

/* The snapshot as text. */
static char *
snapshot_text(void)
{
	char *path = test_file("snapshot.json", "", 0);
	json_error_t error;

	EXPECT_OK(weir_snapshot_write(path, WEIR_SNAPSHOT_JSON, NULL));
	json_t *json = json_load_file(path, 0, &error);
	EXPECT_NOT_NULL(json);
	char *text = json_dumps(json, 0);
	json_decref(json);
	free(path);
	return text;
}

static bool
has(const char *word)
{
	char *text = snapshot_text();
	bool found = strstr(text, word) != NULL;

	free(text);
	return found;
}

/* Run a Python program on files of the test. */
static void
python(const char *program, const char *one, const char *two)
{
	char *script = test_file("program.py", program, strlen(program));
	const char *const argv[] = { "python3", script, one, two, NULL };

	if (system("python3 -c pass 2>/dev/null") != 0)
		SKIP("there is no python3");
	struct command_result result = command_run(argv);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	free(script);
}

/* ---- memory_snapshot, _with_cpp, _script, cpp_memory_snapshot_pickle ---- */

/* All keys of PyTorch's snapshots are there, with their types. */
static const char look[] =
    "import sys, json, pickle\n"
    "class Plain(pickle.Unpickler):\n"
    "    def find_class(self, *name): raise Exception(name)\n"
    "s = Plain(open(sys.argv[1], 'rb')).load()\n"
    "assert open(sys.argv[1], 'rb').read(2) == b'\\x80\\x04'\n"
    "def keys(d, **types):\n"
    "    for k, t in types.items(): assert isinstance(d[k], t), (k, d)\n"
    "found = 0\n"
    "for seg in s['segments']:\n"
    "    keys(seg, device=int, address=int, total_size=int, stream=int,\n"
    "        segment_type=str, allocated_size=int, active_size=int,\n"
    "        requested_size=int, segment_pool_id=tuple,\n"
    "        is_expandable=bool, frames=list, blocks=list)\n"
    "    at = seg['address']\n"
    "    for b in seg['blocks']:\n"
    "        keys(b, address=int, size=int, requested_size=int, state=str,\n"
    "            frames=list)\n"
    "        assert b['address'] == at\n"
    "        at += b['size']\n"
    "        if b['requested_size'] == 311 * 411 * 4:\n"
    "            found += 1\n"
    "            assert 'the_allocation' in str(b['frames']), b['frames']\n"
    "    assert at == seg['address'] + seg['total_size']\n"
    "assert found == 1\n"
    "trace = s['device_traces'][0]\n"
    "for e in trace:\n"
    "    keys(e, action=str, size=int, stream=int, time_us=int,\n"
    "        compile_context=str, user_metadata=str)\n"
    "    for f in e['frames']: keys(f, name=str, filename=str, line=int)\n"
    "assert trace[-1]['action'] == 'alloc', trace[-1]\n"
    "assert trace[-1]['size'] == 311 * 411 * 4\n"
    "assert s['device_traces'][0][-1]['frames'] is not None\n"
    "keys(s['allocator_settings'], PYTORCH_CUDA_ALLOC_CONF=str,\n"
    "    max_split_size=int, garbage_collection_threshold=float,\n"
    "    expandable_segments=bool, pinned_num_register_threads=int,\n"
    "    release_lock_on_cudamalloc=bool,\n"
    "    pinned_use_cuda_host_register=bool,\n"
    "    graph_capture_record_stream_reuse=bool,\n"
    "    roundup_power2_divisions=dict)\n"
    "assert s['external_annotations'] == []\n";

TEST(a_snapshot_has_pytorchs_keys_and_pythons_pickle_loads_it)
{
	static char *path;

	path = test_file("snapshot.pickle", "", 0);
	start(WEIR_HISTORY_ALL);
	the_allocation();
	EXPECT_OK(weir_snapshot_write(path, WEIR_SNAPSHOT_PICKLE, NULL));
	python(look, path, NULL);
	the_free();
}

/* Times come from a counter that is calibrated by two reads of the clock, one
 * of them when the snapshot is written. */
static const char compare[] =
    "import sys, json, pickle\n"
    "p = pickle.load(open(sys.argv[1], 'rb'))\n"
    "j = json.load(open(sys.argv[2]))\n"
    "times = []\n"
    "def plain(s, n):\n"
    "    s = json.loads(json.dumps(s))\n"
    "    for t in s['device_traces']: del t[n:]\n"
    "    del s['weir']['time_us'], s['weir']['devices']\n"
    "    timed = sum(s['device_traces'], s['external_annotations'])\n"
    "    times.append([e.pop('time_us') for e in timed])\n"
    "    return s\n"
    "n = len(p['device_traces'][0])\n"
    "assert n > 3000, n\n"
    "p, j = plain(p, n), plain(j, n)\n"
    "for k in p: assert p[k] == j[k], k\n"
    "for a, b in zip(*times): assert abs(a - b) < 1e7, (a, b)\n"
    "assert p.keys() == j.keys()\n";

TEST(pickle_and_json_have_the_same_content)
{
	static char *pickle;
	static char *json;
	weir_stream stream = new_stream();

	pickle = test_file("snapshot.pickle", "", 0);
	json = test_file("snapshot.json", "", 0);
	start(WEIR_HISTORY_ALL);
	EXPECT_OK(weir_annotate("a \"name\" \xff", WEIR_STAGE_START, 0));
	EXPECT_OK(weir_metadata_set("m\xc3\xa4ta"));
	for (size_t i = 0; i < 1000; i++)
		give(take(i * 1000 + 1, i % 3 == 0 ? NULL : stream));
	take(5 * MIB, WEIR_STREAM_ANY);
	EXPECT_OK(weir_snapshot_write(pickle, WEIR_SNAPSHOT_PICKLE, NULL));
	EXPECT_OK(weir_snapshot_write(json, WEIR_SNAPSHOT_JSON, NULL));
	python(compare, pickle, json);
}

/* ---- memory_plots ------------------------------------------------------ */

TEST(recorded_stacks_depend_on_the_level)
{
	static const enum weir_history_level levels[] = { WEIR_HISTORY_ALL,
		WEIR_HISTORY_NONE };

	for (int i = 0; i < 2; i++) {
		start(levels[i]);
		the_allocation();
		the_free();
		EXPECT(
		    has("the_allocation") == (levels[i] == WEIR_HISTORY_ALL));
		EXPECT(has("511284"));
		EXPECT_OK(weir_history_stop());
	}
}

/* ---- memory_plots_free_stack, _free_segment_stack ---------------------- */

TEST(frees_and_trims_have_their_stack_at_level_all_only)
{
	static const enum weir_history_level levels[] = { WEIR_HISTORY_ALLOC,
		WEIR_HISTORY_ALL, WEIR_HISTORY_STATE };

	for (int i = 0; i < 3; i++) {
		bool all = levels[i] == WEIR_HISTORY_ALL;
		/* The segment is there, and has no stack. */
		give(take(MIB, NULL));
		start(levels[i]);
		the_allocation();
		the_free();
		EXPECT(has("the_free") == all);
		EXPECT(
		    has("the_allocation") == (levels[i] != WEIR_HISTORY_STATE));
		finish(NULL);
		the_trim();
		EXPECT(has("the_trim") == all);
		EXPECT_OK(weir_history_stop());
		trim(0);
	}
}

/* ---- memory_plots_history_context -------------------------------------- */

/* The sizes differ; otherwise the compiler would merge the functions. */
CALL(first_with_stacks, block = take(4 * MIB, NULL))
CALL(one_without_stacks, block = take(5 * MIB, NULL))
CALL(second_with_stacks, block = take(6 * MIB, NULL))

TEST(stacks_pause_while_the_level_is_none_and_events_go_on)
{
	start(WEIR_HISTORY_ALL);
	first_with_stacks();
	start(WEIR_HISTORY_NONE);
	one_without_stacks();
	start(WEIR_HISTORY_ALL);
	second_with_stacks();
	EXPECT(has("first_with_stacks"));
	EXPECT(!has("one_without_stacks"));
	EXPECT(has("second_with_stacks"));
	struct weir_history_info info = { .struct_size = sizeof(info) };
	EXPECT_OK(weir_history_info(0, &info));
	EXPECT_GE(info.recorded, 6);
}

/* ---- Python's frames --------------------------------------------------- */

/* Python calls weir with its lock held and without it; there are threads,
 * recursion, exceptions, and destructors that allocate. */
static const char from_python[] =
    "import ctypes, sys, pickle, threading, gc\n"
    "class History(ctypes.Structure):\n"
    "    _fields_ = [('size', ctypes.c_size_t), ('level', ctypes.c_int),\n"
    "        ('stacks', ctypes.c_int), ('entries', ctypes.c_size_t),\n"
    "        ('skip', ctypes.c_char_p), ('clear', ctypes.c_bool)]\n"
    "def load(kind):\n"
    "    weir = kind(sys.argv[1])\n"
    "    weir.weir_malloc.restype = ctypes.c_void_p\n"
    "    weir.weir_malloc.argtypes = [ctypes.c_size_t, ctypes.c_void_p]\n"
    "    weir.weir_free.argtypes = [ctypes.c_void_p]\n"
    "    return weir\n"
    "holds, leaves = load(ctypes.PyDLL), load(ctypes.CDLL)\n"
    "def start(stacks):\n"
    "    h = History(ctypes.sizeof(History), 3, stacks, 0, None, True)\n"
    "    assert holds.weir_history_start(ctypes.byref(h)) == 0\n"
    "def trace():\n"
    "    path = sys.argv[2].encode()\n"
    "    assert holds.weir_snapshot_write(path, 0, None) == 0\n"
    "    return pickle.load(open(path, 'rb'))['device_traces'][0]\n"
    "def names(event): return [f['name'] for f in event.get('frames', [])]\n"
    "def inner(weir): return weir.weir_malloc(1000, None)\n"
    "def outer(weir): return inner(weir)\n"
    "start(1)\n"
    "a, b = outer(holds), outer(leaves)\n"
    "allocs = [e for e in trace() if e['action'] == 'alloc']\n"
    "assert names(allocs[0]) == ['inner', 'outer', '<module>'], allocs\n"
    "line = inner.__code__.co_firstlineno\n"
    "assert allocs[0]['frames'][0]['line'] == line, allocs[0]\n"
    "assert allocs[0]['frames'][0]['filename'] == __file__\n"
    "known = (3, 9) <= sys.version_info[:2] <= (3, 13)\n"
    "assert names(allocs[1]) == (names(allocs[0]) if known else []), allocs\n"
    "start(0)\n"
    "holds.weir_free(a); a = outer(holds)\n"
    "last = [e for e in trace() if e['action'] == 'alloc'][-1]\n"
    "mixed = names(last)\n"
    "assert 'malloc' not in mixed[0], mixed\n"
    "assert 0 < mixed.index('inner') < mixed.index('outer') < \\\n"
    "    mixed.index('<module>') < len(mixed) - 1, mixed\n"
    "class Late:\n"
    "    def __del__(self): holds.weir_free(holds.weir_malloc(512, None))\n"
    "def deep(n):\n"
    "    return holds.weir_malloc(100, None) if n == 0 else deep(n - 1)\n"
    "def work():\n"
    "    for i in range(100):\n"
    "        try:\n"
    "            x = Late(); x.me = x; del x\n"
    "            holds.weir_free(deep(i % 60))\n"
    "            leaves.weir_free(leaves.weir_malloc(64, None))\n"
    "            1 / 0\n"
    "        except ZeroDivisionError: pass\n"
    "threads = [threading.Thread(target=work) for i in range(4)]\n"
    "for t in threads: t.start()\n"
    "for t in threads: t.join()\n"
    "gc.collect()\n"
    "assert len(trace()) > 2400, len(trace())\n"
    "keep = Late()\n";

TEST(python_frames_are_in_the_stack_where_python_runs)
{
	static char *library;
	static char *path;

	library = test_build("lib/libweir.so");
	path = test_file("snapshot.pickle", "", 0);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	SKIP("a sanitized library cannot be loaded by python3");
#endif
	device_need_sim("the program runs on a device of its own");
	python(from_python, library, path);
}
