/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef TOOLS_WEIR_TUNING_H
#define TOOLS_WEIR_TUNING_H

/* Parts of a trace that `check --no-growth` compares, and the growth that it
 * allows if the flag names none, in percent. */
enum {
	GATE_PARTS = 3,
	GATE_GROWTH_PERCENT = 5,
};

/* Bytes that a decoder of xz may use, nearly all of them for its dictionary.
 * The highest preset of xz needs 65 MiB. */
enum { XZ_DECODER_MEMORY = 256 << 20 };

/* Rows of a generated trace. A row takes 48 bytes while it is made, and no
 * replay needs more rows. */
enum { GENERATE_EVENTS_MAX = 100000000 };

/* The limits of a process that names frames: GiB of address space beyond those
 * that it has at its start, as a file of debug information is mapped as a
 * whole; seconds of a processor, as long as its client waits; seconds of time,
 * for a file that blocks. And program headers and bytes of notes that are
 * looked at for a build ID. */
enum {
	NAMER_GIB = 8,
	NAMER_SECONDS = 20,
	NAMER_SECONDS_WAITED = 40,
	NAMER_HEADERS = 1024,
	NAMER_NOTES = 64 << 10,
};

/* Bytes of a word that is compared with known ones, and of a guess's sentence.
 */
enum {
	GUESS_WORD = 64,
	GUESS_TEXT = 128,
};

/* Bytes that are compressed at a time. */
enum {
	GZIP_CHUNK = 1 << 16,
	PACKER_IN = 1 << 16,
	PACKER_OUT = 3 << 14,
};

/* Files that `merge` takes. */
enum { MERGE_RANKS = 4096 };

/* Devices and streams of an exported trace that get a name. A viewer shows the
 * others by their number. */
enum { NSYS_NAMED = 512 };

/* Holders of memory that `oom` names. */
enum { OOM_HOLDERS = 3 };

/* Milliseconds between two updates of a progress line, and until the first:
 * most commands end before. Callers count PROGRESS_STEPS small steps between
 * two calls. */
enum {
	PROGRESS_EVERY_MS = 200,
	PROGRESS_AFTER_MS = 1000,
	PROGRESS_STEPS = 4096,
};

/* Requests that `replay --explain` lists: the list and the sums fit a screen.
 */
enum { REPLAY_COSTLIEST = 10 };

/* Rows between two checks of all memory in a replay, and between two looks at
 * the progress. */
enum {
	PLAYER_CHECK_ROWS = 1000,
	PLAYER_PROGRESS_ROWS = 64,
};

/* Cells of a segment's map. */
enum { MAP_CELLS = 24 };

/* Bytes of a profiler's trace that are written at once. */
enum { CHROME_PIECE = 1 << 20 };

/* A suspect of a leak has live blocks in LEAK_PARTS_LEAST of LEAK_PARTS equal
 * parts of the trace, and at least LEAKS_LEAST if no flag says. */
enum {
	LEAK_PARTS_LEAST = 3,
	LEAK_PARTS = 8,
	LEAKS_LEAST = 3,
};

/* A trace ends at its peak if at least this share of the memory that it adds at
 * its peak is live at its end: small blocks may have been freed since. */
enum { LEAK_PEAK_PERCENT = 95 };

/* Depth of JSON, and bytes of the texts of known stacks. */
enum {
	JSON_DEPTH = 64,
	JSON_KNOWN_BYTES = 64 << 20,
};

/* Bytes of a call's text in lists. */
enum {
	VIEW_TEXT = 256,
	SITE_FUNCTION = 128,
	SNAPSHOT_WHY = 256,
};

/* Columns that a query names, and that a table may have. */
enum {
	SQLITE_COLUMNS = 16,
	SQLITE_TABLE_COLUMNS = 128,
};

/* Uses at once that end at exact times of their own in a replay. */
enum { STAGE_TIMERS = 24 };

/* Nanoseconds at the end of a wait in which the host spins, because a sleep is
 * not more exact. */
enum { STAGE_SPIN_NS = 100000 };

/* Bytes at both ends of a block that a replay writes. */
enum { STAGE_EDGE = 64 };

/* Bytes of a trace's name, with its NUL, and of the longest comment that is
 * read as JSON. */
enum {
	TRACE_NAME_BYTES = 256,
	TRACE_COMMENT_MAX = 1 << 16,
};

/* Streams and private pools of a trace. A file with more counts as damaged. */
enum { TRACE_STREAMS_MAX = 1024, TRACE_POOLS_MAX = 1024 };

/* Milliseconds: the longest wait for a snapshot, which may have gigabytes, for
 * any other answer, and for a process's metrics. */
enum {
	WATCH_SNAPSHOT_MS = 600 * 1000,
	WATCH_ANSWER_MS = 10 * 1000,
	/* To fall asleep or to wake: work in flight ends first, and 140 GiB
	 * take some 4 s; a wake may wait for memory. */
	SLEEP_ANSWER_MS = 10 * 60 * 1000,
	METRICS_ANSWER_MS = 1000,
};

/* Processes whose metrics are gathered, and those that are asked at once, with
 * milliseconds for a try. Further processes are left out. */
enum {
	METRICS_PROCESSES = 64,
	GATHER_ASKED = 256,
	GATHER_TRY_MS = 20,
};

/* Columns of a bar, and of a name beside it. */
enum {
	SHOW_BAR = 30,
	SHOW_TEXT = 48,
};

/* Parts of a curve of held memory: about one for each second pixel of a wide
 * picture. `weir view --what-if` plays at most so many settings, which is as
 * many as a picture has colours, and a setting has at most so many bytes. */
enum {
	HELD_CURVE_PARTS = 600,
	WHAT_IF_MOST = 9,
	WHAT_IF_TEXT = 512,
};

/* Random bytes in the address of a live page: as many as a key of AES has. */
enum { LIVE_TOKEN = 16 };

/* The chart of weir watch: it fits 80 columns, and leaves the rest of a
 * terminal of 24 rows to the figures. */
enum {
	CHART_COLUMNS = 64,
	CHART_ROWS = 4,
};

/* A page has at most so many faults of a device, and stacks that may leak: it
 * says them as sentences, and names the command that lists them all. */
enum {
	PAGE_FAULTS = 20,
	PAGE_SUSPECTS = 50,
};

/* Milliseconds between two looks at a stopped program, and until the witness
 * reports. */
enum {
	WITNESS_LOOK_MS = 20,
	WITNESS_MS = 100,
};

/* How late a report of the witness may be, and its answer, in milliseconds. */
enum {
	PROGRAM_LATE_MS = 5000,
	PROGRAM_ANSWER_MS = 1000,
};

/* The smallest limit is found to within this many bytes: a segment of weir. */
enum { LIMIT_GRANULE = 2 << 20 };

/* Rows from which sorting a trace takes a second, and so shows its progress. */
enum { SORT_SHOWN = 4 << 20 };

/* The port of metrics: its clients, bytes of a request, and milliseconds for a
 * request, an answer, a close, and until a silent client loses its place. */
enum {
	HTTP_CLIENTS = 128,
	HTTP_REQUEST_BYTES = 8192,
	HTTP_REQUEST_MS = 5000,
	HTTP_ANSWER_MS = 5000,
	HTTP_CLOSE_MS = 1000,
	HTTP_GRACE_MS = 100,
};

/* weir group: milliseconds for members to count their idle memory, and how
 * often and how far apart a ledger is looked at again that seems to have a
 * fault. */
enum {
	GROUP_ANSWER_MS = 100,
	GROUP_CHECKS = 20,
	GROUP_CHECK_MS = 10,
};

#endif
