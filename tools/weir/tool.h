/*
 * The subcommands of weir share this header: their table, complaints, sizes,
 * tables of text, and the places where parts of weir are installed.
 *
 * A subcommand is one file and one function. The function gets the arguments
 * of the subcommand, with argv[0] "weir NAME". It prints to stdout, complains
 * on stderr and returns one of enum tool_exit.
 */
#ifndef TOOLS_WEIR_TOOL_H
#define TOOLS_WEIR_TOOL_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * A command that answers a question ends with TOOL_DONE or TOOL_FOUND, all
 * others with TOOL_DONE. A command that cannot answer, or cannot do its work,
 * complains and ends with TOOL_FAILED, whatever stands in the way: the command
 * line, a file, a process, memory, the output.
 */
enum tool_exit {
	TOOL_DONE = 0,
	TOOL_FOUND = 1,           /* the command has found what it looks for */
	TOOL_FAILED = 2,          /* trouble */
	TOOL_USAGE = TOOL_FAILED, /* the command line is wrong */
	TOOL_SHORT = 3, /* a child of the command is short of host memory */
};

/* The sentence of a help on the exit status of a command without a question. */
#define TOOL_STATUS "Exit status: 0 done, 2 trouble."

/* A line of the table in commands.c. */
struct command {
	const char *name;
	const char *args;
	const char *help;
	int (*run)(int argc, char **argv);
	const struct argp *parser; /* NULL: no flags */
};

/* All subcommands, in help's order. */
const struct command *commands_table(size_t *count);

/* The subcommand of this name, or NULL. */
const struct command *commands_find(const char *name);

/* Run a subcommand with its own arguments. This changes argv[0]. */
int commands_run(const struct command *command, int argc, char **argv);

/* Complain of an unknown name, and suggest the nearest one. Returns
 * TOOL_USAGE. */
int commands_unknown(const char *name);

/* The list that `weir help` prints. */
void commands_list(FILE *out);

int cmd_help(int argc, char **argv);
/* The subcommand completion, for these subcommands. */
int completion_print(
    const struct command *commands, size_t count, int argc, char **argv);
int cmd_version(int argc, char **argv);

/*
 * X(name, arguments, help): the subcommands that have a file and flags of their
 * own, in help's order. CONTRIBUTING.md has the recipe for a new one.
 */
/* clang-format off */
#define TOOL_COMMANDS(X)                                                       \
	X(run, "PROGRAM ARGS...",                                              \
	    "run a program with its GPU memory under weir")                    \
	X(watch, "[PID]", "the memory of a running process, once a second")    \
	X(ctl, "PID [PATH...]",                                                \
	    "read and set values of a running process by name")                \
	X(group, "[NAME]",                                                     \
	    "who shares the memory of devices, and by which limits")           \
	X(sleep, "PID|GROUP",                                                  \
	    "take a program's memory off its devices for a while")             \
	X(wake, "PID|GROUP", "give a program that sleeps its memory back")     \
	X(show, "SNAPSHOT", "segments and blocks, and a map of each")          \
	X(stats, "SNAPSHOT", "sums and counts of each device")                 \
	X(top, "SNAPSHOT", "who holds the memory: by stack, size, lifetime")   \
	X(oom, "SNAPSHOT", "why memory ran out, and what would have helped")   \
	X(advise, "PID|FILE", "settings that help, as replays have shown")     \
	X(frag, "SNAPSHOT", "where memory is reserved and not used")           \
	X(leaks, "SNAPSHOT", "stacks that may leak")                           \
	X(diff, "BEFORE AFTER", "changes between two snapshots")               \
	X(check, "SNAPSHOT", "whether a snapshot is consistent")               \
	X(export, "SNAPSHOT",                                                  \
	    "write it for Perfetto, flame graphs, or as JSON or CSV")          \
	X(view, "SNAPSHOT", "a page that shows a snapshot in a browser")       \
	X(replay, "TRACE...", "play recorded allocations through weir")        \
	X(fit, "RECORDING...",                                                 \
	    "forecast the memory of a program at another size")                \
	X(plan, "RECORDING",                                                   \
	    "where a program that repeats itself gets its memory")        \
	X(trace, "SNAPSHOT", "the history, a line for each event")             \
	X(merge, "SNAPSHOT...", "the ranks of a job beside each other")        \
	X(generate, "KIND",                                                    \
	    "write a trace of a program with several streams")                 \
	X(options, "", "every option: value, source, default, range")          \
	X(info, "", "the driver, the devices and their state")                 \
	X(completion, "SHELL", "what a shell offers after weir")
/* clang-format on */

#define TOOL_COMMAND(name, args, help)                                         \
	int cmd_##name(int argc, char **argv);                                 \
	extern const struct argp argp_##name;
TOOL_COMMANDS(TOOL_COMMAND)
#undef TOOL_COMMAND

/* Write one line to stderr: "weir: " and the text. Control characters in the
 * text become "?", except newlines. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Complain with weir_last_error() about options that a flag gave, such as
 * "--conf". The message names the flag in place of `origin`, which is
 * "WEIR_CONF" for example. */
void complain_conf(const char *flag, const char *origin);

/* ---- Sizes ----------------------------------------------------------- */

/* Parse "4096", "64K", "20M", "8G", "1T" (powers of 1024; "MiB" and "MB" mean
 * M too). False for any other text, and for sizes above 64 bits. */
bool bytes_parse(const char *text, uint64_t *out);

/* Parse a number from `least` to `most`. False for any other text. */
bool number_parse(const char *text, double least, double most, double *out);

/* Parse a whole number from 0 to `most`, in decimal digits only. False for
 * any other text. */
bool count_parse(const char *text, uint64_t most, uint64_t *out);

/* The next random number of splitmix64, which gives the same numbers on every
 * machine. `state` begins as the seed. */
static inline uint64_t
random_next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* Write a size: "512 bytes", "20.00 MiB". The text is cut to `size`. Returns
 * `text`. */
const char *bytes_format(uint64_t bytes, char *text, size_t size);

/* ---- Text for people ------------------------------------------------- */

/* Rows of cells. Each column is printed as wide as its widest cell. */
struct table;

/* `align` has one character for each column: 'r' aligns right, 'l' left. NULL
 * without memory; the calls below then do nothing and table_print() fails. */
struct table *table_new(const char *align);
/* Add a cell at the end. A row is full when every column has a cell. */
void table_add(struct table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Print to stdout. With `heading`, the first row is a heading. False if memory
 * was lacking for a cell. */
bool table_print(const struct table *table, bool heading);
void table_free(struct table *table);

/* ---- JSON ------------------------------------------------------------ */

/* Print a text that stands between quotes in JSON. Quotes, backslashes and all
 * control characters (base/utf8.h) are escaped. Bytes that are not UTF-8
 * become U+FFFD. */
void json_escaped(const char *text, size_t length, FILE *out);

/* The version of the JSON that --json prints (docs/json.md), which each object
 * of its outermost level has as "format_version". It rises when a key is
 * removed or changes its meaning, and not when a key is added. */
enum { JSON_VERSION = 1 };

/* The exit status of this process when it is short of host memory: TOOL_FAILED,
 * or TOOL_SHORT in a child. memory_gate.c, Note [Short of host memory]. */
extern int tool_short_status;

struct json_t;

/* A text of JSON from any bytes, such as a path: those that are not UTF-8
 * become U+FFFD. NULL without memory. */
struct json_t *json_of_text(const char *text);

/* Print as json_dumpf() does, with the escapes of json_escaped(). False if
 * the text could not be written. */
bool json_print(const struct json_t *json, size_t flags, FILE *out);

/* ---- Installed parts, and the driver ---------------------------------- */

/* Bytes of a path that the calls below write. */
enum { TOOL_PATH = 4096 };

/* The file of this command. Works without /proc too. */
bool locate_self(char path[TOOL_PATH]);

/*
 * Find a part of weir, such as "libweir_preload.so" or "sim/libcuda.so.1", in
 * the library folder that belongs to this command: beside the command's folder
 * in a build, or where weir was installed. False, and a complaint, if no such
 * folder has the part.
 */
bool locate(const char *part, char path[TOOL_PATH]);
/* locate() without a complaint. */
bool locate_quietly(const char *part, char path[TOOL_PATH]);

/*
 * True if a GPU can be used. A child process asks the driver: CUDA stays
 * uninitialised in this process, so that this process may still fork. The
 * command ends with TOOL_FAILED, after a complaint, if there is no memory or no
 * process to ask with.
 */
bool gpu_present(void);

/* Put `folder` before the folders in which the linker searches libraries.
 * False, with errno, if the environment cannot be set. */
bool prepend_library_path(const char *folder);

/*
 * Make weir, and the programs that this process starts, use the simulated
 * device if the user asked for it (`forced`) or no GPU is present. A driver
 * that WEIR_LIBCUDA names is kept unless `forced`. False, and a complaint, if
 * the simulated libraries are needed and not installed.
 */
bool use_simulated_if(bool forced);

#endif
