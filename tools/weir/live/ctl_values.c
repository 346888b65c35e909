#include "tools/weir/live/ctl_values.h"

#include <stdlib.h>
#include <string.h>

#include <weir/ctl.h>

#include "tools/weir/tool.h"

static bool
add_rows(struct ctl_rows *rows, const struct watch_ctl_reply *reply)
{
	size_t n = rows->count + reply->row_count;

	if (n > rows->capacity) {
		size_t capacity = 2 * n;
		void *more = realloc(rows->row, capacity * sizeof(*rows->row));

		if (more == NULL) {
			complain("cannot print: out of memory");
			return false;
		}
		rows->row = more;
		rows->capacity = capacity;
	}
	if (reply->row_count > 0)
		memcpy(rows->row + rows->count, reply->rows,
		    reply->row_count * sizeof(*rows->row));
	rows->count = n;
	return true;
}

static bool
begin_request(struct watch_ctl_request *request, enum watch_kind kind,
    const char *path, size_t length)
{
	*request = (struct watch_ctl_request){ .magic = WATCH_MAGIC,
		.version = WATCH_VERSION,
		.kind = (uint32_t)kind };
	if (length < sizeof(request->path)) {
		memcpy(request->path, path, length);
		return true;
	}
	complain("'%s': too long for a path", path);
	return false;
}

/* Append the rows at and below a path. The process may make devices between
 * two requests, so that its count of rows may grow: no row is requested twice,
 * and an answer without rows ends the list. */
enum watch_answer
ctl_list(int fd, const char *path, struct ctl_rows *rows)
{
	static struct watch_ctl_reply reply;
	struct watch_ctl_request request;
	enum watch_answer answer;

	if (!begin_request(&request, WATCH_LIST, path, strlen(path)))
		return WATCH_FAILED;
	do {
		answer = watch_ask_values(fd, &request, &reply);
		if (answer != WATCH_ANSWERED)
			return answer;
		if (!add_rows(rows, &reply))
			return WATCH_FAILED;
		request.from += reply.row_count;
	} while (reply.row_count > 0 && request.from < reply.rows_all);
	return WATCH_ANSWERED;
}

enum watch_answer
ctl_set(int fd, const char *word)
{
	struct watch_ctl_request request;
	const char *equals = strchr(word, '=');

	if (!begin_request(&request, WATCH_SET, word, (size_t)(equals - word)))
		return WATCH_FAILED;
	if (strlen(equals + 1) >= sizeof(request.value)) {
		complain("%s: the value is too long", request.path);
		return WATCH_FAILED;
	}
	strcpy(request.value, equals + 1);
	return watch_ask_values(fd, &request, NULL);
}

static json_t *
row_value_json(const struct watch_ctl_row *row)
{
	uint64_t number = strtoull(row->text, NULL, 10);
	bool is_number = row->text[0] >= '0' && row->text[0] <= '9';

	if (row->readable == 0)
		return json_null();
	switch ((enum weir_ctl_type)row->type) {
	case WEIR_CTL_TYPE_FLAG:
		return json_boolean(strcmp(row->text, "True") == 0);
	case WEIR_CTL_TYPE_COUNT:
		if (is_number && number <= INT64_MAX)
			return json_integer((json_int_t)number);
		break;
	case WEIR_CTL_TYPE_REAL:
		return json_real(strtod(row->text, NULL));
	case WEIR_CTL_TYPE_TEXT:
		break;
	}
	return json_string(row->text);
}

json_t *
ctl_row_json(const struct watch_ctl_row *row)
{
	return json_pack("{ss so ss sb ss ss}", "path", row->path, "value",
	    row_value_json(row), "unit", row->unit, "writable",
	    row->writable != 0, "accepted", row->accepted, "help", row->help);
}
