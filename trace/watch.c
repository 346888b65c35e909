/*
 * Checks messages before they are used.
 */
#include "trace/watch.h"

#include <string.h>

static const char *
fault_of(uint32_t magic, uint32_t version)
{
	if (magic != WATCH_MAGIC)
		return "it is not of weir";
	if (version != WATCH_VERSION)
		return "it comes from another version of weir";
	return NULL;
}

static bool
is_text(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

static const char *
ctl_request_fault(const void *bytes, size_t n)
{
	const struct watch_ctl_request *request = bytes;

	if (n != sizeof(*request))
		return "it has a wrong size";
	if (!is_text(request->path, sizeof(request->path)) ||
	    !is_text(request->value, sizeof(request->value)))
		return "a text in it does not end";
	return NULL;
}

const char *
watch_request_fault(const void *bytes, size_t n)
{
	struct watch_request request;
	const char *fault;

	if (n < 2 * sizeof(uint32_t))
		return "it is cut";
	memset(&request, 0, sizeof(request));
	memcpy(&request, bytes, n < sizeof(request) ? n : sizeof(request));
	fault = fault_of(request.magic, request.version);
	if (fault != NULL)
		return fault;
	if (n >= sizeof(request) && request.kind >= WATCH_KINDS)
		return "its request is unknown";
	if (n >= sizeof(request) &&
	    (request.kind == WATCH_LIST || request.kind == WATCH_SET))
		return ctl_request_fault(bytes, n);
	if (n != sizeof(request))
		return "it has a wrong size";
	if (request.json > 1)
		return "its format is unknown";
	return NULL;
}

static const char *
devices_fault(const struct watch_reply *reply)
{
	for (uint32_t i = 0; i < reply->device_count; i++) {
		const struct watch_device *device = &reply->devices[i];

		if (device->stream_count > WATCH_ROWS ||
		    device->pool_count > WATCH_ROWS)
			return "a device has too many rows";
	}
	return NULL;
}

const char *
watch_reply_fault(const void *bytes, size_t n, enum watch_kind to)
{
	const struct watch_reply *reply = bytes;
	const char *fault;

	if (n < watch_reply_size(0))
		return "it is cut";
	fault = fault_of(reply->magic, reply->version);
	if (fault != NULL)
		return fault;
	if (reply->device_count > WATCH_DEVICES ||
	    n != watch_reply_size(reply->device_count))
		return "it has a wrong size";
	if (reply->kind != (uint32_t)to)
		return "it answers another request";
	if (!is_text(reply->text, sizeof(reply->text)) ||
	    !is_text(reply->weir, sizeof(reply->weir)))
		return "a text in it does not end";
	return devices_fault(reply);
}

static bool
row_is_sound(const struct watch_ctl_row *row)
{
	return is_text(row->unit, sizeof(row->unit)) &&
	    is_text(row->path, sizeof(row->path)) &&
	    is_text(row->text, sizeof(row->text)) &&
	    is_text(row->accepted, sizeof(row->accepted)) &&
	    is_text(row->help, sizeof(row->help));
}

const char *
watch_ctl_reply_fault(const void *bytes, size_t n)
{
	const struct watch_ctl_reply *reply = bytes;
	const char *fault;

	if (n < watch_ctl_reply_size(0))
		return "it is cut";
	fault = fault_of(reply->magic, reply->version);
	if (fault != NULL)
		return fault;
	if (reply->row_count > WATCH_CTL_ROWS ||
	    n != watch_ctl_reply_size(reply->row_count))
		return "it has a wrong size";
	if (reply->kind != WATCH_LIST)
		return "it answers another request";
	for (uint32_t i = 0; i < reply->row_count; i++)
		if (!row_is_sound(&reply->rows[i]))
			return "a text in it does not end";
	return NULL;
}
