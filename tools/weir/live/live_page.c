/*
 * `weir view --live`.
 *
 *	GET  /TOKEN/          the page, with a snapshot that is taken for it
 *	GET  /TOKEN/sample    statistics, as `weir watch --json` prints them;
 *	                      {"ended": true} if the process has ended
 *	GET  /TOKEN/group     the ledgers of the process's group, as `weir group
 *	                      --json` prints them; none without a group
 *	GET  /TOKEN/values    the values that may be set, as `weir ctl --json`
 *	POST /TOKEN/set?PATH=VALUE    sets a value, as `weir ctl set` does
 *
 * The token keeps other users of the machine out, and other pages of the user's
 * browser: neither can guess the address. A page that is not of this server
 * cannot read it (no CORS), and http_port.c refuses other names of the host.
 */
#include "tools/weir/live/live_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "tools/weir/advise/advise_page.h"
#include "tools/weir/export/page_write.h"
#include "tools/weir/live/ctl_values.h"
#include "tools/weir/live/group_json.h"
#include "tools/weir/live/http_port.h"
#include "tools/weir/live/ledgers.h"
#include "tools/weir/live/watch_link.h"
#include "tools/weir/live/watch_show.h"
#include "tools/weir/reading/snapshot_file.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"

struct live {
	pid_t pid;
	char root[2 * LIVE_TOKEN + 3]; /* "/TOKEN/" */
	char title[64];
	char group[WEIR_CTL_TEXT];  /* "": none */
	char folder[WEIR_CTL_TEXT]; /* of its ledgers; "": the default one */
	bool ended;
	struct watch_reply replies[2];
	unsigned samples; /* the latest is replies[(samples - 1) % 2] */
};

/* ---- Requests ---------------------------------------------------------- */

/* True if the path of a request is the root and `name`. */
static bool
is_asked(const struct live *live, const char *head, const char *name)
{
	char path[sizeof(live->root) + 16];

	snprintf(path, sizeof(path), "%s%s", live->root, name);
	return http_is_path(head, path);
}

static const char *
live_refusal(const char *head, void *user)
{
	const struct live *live = user;

	if (is_asked(live, head, "set"))
		return strncmp(head, "POST ", 5) == 0 ?
		    NULL :
		    "405 Method Not Allowed";
	if (!is_asked(live, head, "") && !is_asked(live, head, "sample") &&
	    !is_asked(live, head, "group") && !is_asked(live, head, "values"))
		return "404 Not Found";
	return strncmp(head, "GET ", 4) == 0 ? NULL : "405 Method Not Allowed";
}

static void
keep_reply(const struct watch_reply *reply, void *user)
{
	struct live *live = user;

	live->replies[live->samples++ % 2] = *reply;
}

static bool
live_refresh(void *user)
{
	struct live *live = user;

	live->ended = watch_gather_one(live->pid, METRICS_ANSWER_MS, keep_reply,
			  live) == WATCH_ENDED;
	return !live->ended;
}

/* ---- Answers ----------------------------------------------------------- */

static struct http_page *
json_page(json_t *object)
{
	char *text = json_dumps(object, JSON_COMPACT);

	json_decref(object);
	return text == NULL ? NULL :
			      http_page_new("application/json; charset=utf-8",
				  text, strlen(text));
}

static struct http_page *
sample_page(const struct live *live)
{
	const struct watch_reply *replies = live->replies;
	unsigned n = live->samples;

	if (live->ended)
		return json_page(json_pack("{sb}", "ended", 1));
	if (n == 0)
		return NULL;
	return json_page(
	    watch_json(&replies[(n - 1) % 2], n > 1 ? &replies[n % 2] : NULL));
}

/* Idle memory is as the members counted it last: they are not rung each
 * second. */
static struct http_page *
group_page(const struct live *live)
{
	struct found_ledger *list = NULL;
	json_t *ledgers = json_array();

	if (live->group[0] != '\0' &&
	    ledgers_open(live->folder[0] != '\0' ? live->folder : NULL,
		live->group, &list, NULL))
		for (struct found_ledger *f = list; f != NULL; f = f->next)
			json_array_append_new(ledgers, group_json(f));
	ledgers_close(list);
	return json_page(json_pack("{so}", "ledgers", ledgers));
}

static struct http_page *
values_page(const struct live *live)
{
	struct ctl_rows rows = { 0 };
	json_t *list;
	int fd;

	if (live->ended || !watch_reach(live->pid, WATCH_ANSWER_MS, &fd))
		return NULL;
	list = json_array();
	if (ctl_list(fd, "", &rows) == WATCH_ANSWERED)
		for (size_t i = 0; i < rows.count; i++)
			if (rows.row[i].writable != 0)
				json_array_append_new(
				    list, ctl_row_json(&rows.row[i]));
	close(fd);
	free(rows.row);
	return json_page(json_pack("{so}", "values", list));
}

static int
hex_digit(char c)
{
	const char *digits = "0123456789abcdef0123456789ABCDEF";
	const char *at = c == '\0' ? NULL : strchr(digits, c);

	return at == NULL ? -1 : (int)(at - digits) % 16;
}

/* Copy the query of a request, with its escapes resolved. False if it is too
 * long, or has an escape of no character. */
static bool
read_query(const char *head, char *out, size_t room)
{
	const char *at = strchr(strchr(head, ' ') + 1, '?');
	const char *end = strstr(head, " HTTP/");
	size_t n = 0;

	if (at == NULL || end == NULL || at > end)
		return false;
	for (at++; at < end && n + 1 < room; at++) {
		int high = hex_digit(at[1]);
		int low = high < 0 ? -1 : hex_digit(at[2]);

		if (*at == '%' && (low < 0 || high + low == 0))
			return false;
		out[n++] = *at == '%' ? (char)(16 * high + low) : *at;
		if (*at == '%')
			at += 2;
	}
	out[n] = '\0';
	return at == end;
}

/* Set a value. The answer is {"set": true}, or says why not. */
static struct http_page *
set_page(const struct live *live, const char *head)
{
	char word[sizeof(struct watch_ctl_request)];
	const char *why = "PATH=VALUE is missing, or too long";
	struct http_page *page;
	bool set = false;
	int fd;

	if (!live->ended && read_query(head, word, sizeof(word)) &&
	    strchr(word, '=') != NULL &&
	    watch_reach(live->pid, WATCH_ANSWER_MS, &fd)) {
		set = ctl_set(fd, word) == WATCH_ANSWERED;
		close(fd);
		why = watch_values_fault()[0] != '\0' ?
		    watch_values_fault() :
		    "the process does not answer";
	}
	page = json_page(set ?
		json_pack("{sb}", "set", 1) :
		json_pack("{sb so}", "set", 0, "why", json_of_text(why)));
	if (page != NULL && !set)
		page->status = "400 Bad Request";
	return page;
}

/* ---- The page ---------------------------------------------------------- */

/* Let the process write a snapshot into memory, and read it. */
static struct snapshot *
take_snapshot(const struct live *live)
{
	static struct watch_reply reply;
	const struct watch_request request = { WATCH_MAGIC, WATCH_VERSION,
		WATCH_SNAPSHOT, 0 };
	struct snapshot *snapshot = NULL;
	char path[64];
	int file = memfd_create("weir-live", MFD_CLOEXEC);
	int fd;

	if (file < 0)
		complain("cannot take a snapshot: no file in memory");
	if (file >= 0 && watch_reach(live->pid, WATCH_SNAPSHOT_MS, &fd)) {
		if (watch_ask(fd, &request, file, &reply) == WATCH_ANSWERED) {
			snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
			snapshot = snapshot_load(path);
		}
		close(fd);
	}
	if (file >= 0)
		close(file);
	return snapshot;
}

/* The server does not replay: its clients would wait. */
static bool
refer_to_advise(const struct live *live, const struct snapshot *snapshot,
    struct page_data *data)
{
	char reason[128];
	json_t *advice;
	bool added;

	snprintf(reason, sizeof(reason),
	    "the program is running; `weir advise %ld` replays its history",
	    (long)live->pid);
	advice = advise_page_without(snapshot, reason);
	added = page_data_add_advice(data, advice);
	json_decref(advice);
	return added;
}

static struct http_page *
whole_page(const struct live *live)
{
	struct snapshot *snapshot = live->ended ? NULL : take_snapshot(live);
	struct page_data *data =
	    snapshot == NULL ? NULL : page_data_new(snapshot, live->title);
	struct http_page *page = NULL;
	char *text = NULL;
	size_t size = 0;
	FILE *out = NULL;
	bool written;

	if (data != NULL && refer_to_advise(live, snapshot, data))
		out = open_memstream(&text, &size);

	if (out != NULL) {
		written = page_write(data, NULL, true, out);
		if (fclose(out) == 0 && written)
			page = http_page_new(
			    "text/html; charset=utf-8", text, size);
		else
			free(text);
	}
	page_data_free(data);
	snapshot_free(snapshot);
	return page;
}

static struct http_page *
live_answer(const char *head, void *user)
{
	const struct live *live = user;

	if (is_asked(live, head, "sample"))
		return sample_page(live);
	if (is_asked(live, head, "group"))
		return group_page(live);
	if (is_asked(live, head, "values"))
		return values_page(live);
	if (is_asked(live, head, "set"))
		return set_page(live, head);
	return whole_page(live);
}

/* ---- Serving ----------------------------------------------------------- */

/* Make the root of the server's paths. */
static bool
make_token(struct live *live)
{
	unsigned char bytes[LIVE_TOKEN];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
		complain("cannot make a token: no random numbers");
		return false;
	}
	live->root[0] = '/';
	for (size_t i = 0; i < LIVE_TOKEN; i++)
		snprintf(live->root + 1 + 2 * i, 3, "%02x", bytes[i]);
	live->root[1 + 2 * LIVE_TOKEN] = '/';
	live->root[2 + 2 * LIVE_TOKEN] = '\0';
	return true;
}

/* Read an option of the process whose text is "none" if it is not set. */
static enum watch_answer
read_option(int fd, const char *path, char text[WEIR_CTL_TEXT])
{
	struct ctl_rows rows = { 0 };
	enum watch_answer answer = ctl_list(fd, path, &rows);

	if (answer == WATCH_ANSWERED && rows.count == 1 &&
	    strcmp(rows.row[0].text, "none") != 0)
		memcpy(text, rows.row[0].text, WEIR_CTL_TEXT);
	free(rows.row);
	return answer;
}

/* Read which group the process is in. It changes its group no more once it has
 * asked for memory. A process that is busy has some seconds to answer: one that
 * is taken to have no group has no picture of it. */
static bool
read_group(struct live *live)
{
	enum watch_answer answer;
	int fd;

	if (!watch_reach(live->pid, WATCH_ANSWER_MS, &fd))
		return false;
	answer = read_option(fd, "option.group", live->group);
	if (answer == WATCH_ANSWERED)
		answer = read_option(fd, "option.group_folder", live->folder);
	close(fd);
	if (answer == WATCH_ENDED)
		complain("process %ld has ended", (long)live->pid);
	else if (answer != WATCH_ANSWERED)
		complain(
		    "process %ld: %s", (long)live->pid, watch_values_fault());
	return answer == WATCH_ANSWERED;
}

int
live_page_serve(pid_t pid, void (*opened)(const char *address))
{
	static struct live live;
	const struct http_service service = { live_refresh, live_answer,
		live_refusal, &live, false };
	char address[sizeof(live.root) + 64];
	char program[32];
	uint16_t port = 0;
	int listener;

	/* A process that cannot be watched is named before anything is
	 * served. */
	live.pid = watch_program_of(pid);
	if (!read_group(&live))
		return TOOL_FAILED;
	watch_program((uint32_t)live.pid, program);
	snprintf(live.title, sizeof(live.title), "%s, process %ld", program,
	    (long)live.pid);
	listener = make_token(&live) ? http_port_open(&port) : -1;
	if (listener < 0)
		return TOOL_FAILED;
	snprintf(
	    address, sizeof(address), "http://127.0.0.1:%u%s", port, live.root);
	puts(address);
	fflush(stdout);
	if (opened != NULL)
		opened(address);
	http_port_serve(listener, &service);
	complain("process %ld has ended", (long)live.pid);
	return TOOL_DONE;
}
