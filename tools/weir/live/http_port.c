/*
 * One thread serves all connections, by poll().
 *
 * Note [Clients of a port]
 *
 * A client that is slow, silent or talkative must not keep others from the
 * page, nor make this process grow:
 *
 *   READING   The whole request must arrive within HTTP_REQUEST_MS, however its
 *             bytes come, and be shorter than HTTP_REQUEST_BYTES.
 *   READY     It is complete, and is answered in this turn. All requests that
 *             are ready share one refresh(), so many cost little more than one.
 *   WRITING   The client must read the whole answer within HTTP_ANSWER_MS.
 *   CLOSING   Everything is sent. What the client still sends is dropped for
 *             HTTP_CLOSE_MS: the system would cut the answer of a client whose
 * bytes were not read.
 *
 * At most HTTP_CLIENTS are connected, and their unread answers have at most
 * UNREAD_BYTES. When all places are taken, a new client gets that of the oldest
 * one, which has had at least HTTP_GRACE_MS; until then it waits in the
 * system's queue.
 */
#include "tools/weir/live/http_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tools/weir/progress.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"

enum {
	UNREAD_BYTES = 64 << 20,
	REST_MS = 100,
	/* when the system has no more descriptors */
};

enum state { FREE, READING, READY, WRITING, CLOSING };

struct client {
	enum state state;
	int fd;
	int64_t came_ms;
	int64_t until_ms; /* the end of this state */
	size_t used;
	char request[HTTP_REQUEST_BYTES];
	char head[512]; /* of the answer */
	size_t head_size;
	struct http_page *page;
	size_t sent; /* bytes of head and page */
};

static struct client clients[HTTP_CLIENTS];

/* ---- Pages ------------------------------------------------------------- */

struct http_page *
http_page_new(const char *type, char *text, size_t size)
{
	struct http_page *page = malloc(sizeof(*page));

	if (page == NULL) {
		free(text);
		return NULL;
	}
	*page = (struct http_page){ 1, "200 OK", type, text, size };
	return page;
}

struct http_page *
http_page_share(struct http_page *page)
{
	if (page != NULL)
		page->uses++;
	return page;
}

void
http_page_drop(struct http_page *page)
{
	if (page == NULL || --page->uses > 0)
		return;
	free(page->text);
	free(page);
}

/* ---- Requests ---------------------------------------------------------- */

/* The value of a header, which ends at the end of its line; NULL if there is no
 * such header. */
static const char *
header_of(const char *head, const char *name)
{
	size_t length = strlen(name);

	for (const char *line = strstr(head, "\r\n"); line != NULL;
	     line = strstr(line, "\r\n")) {
		line += 2;
		if (strncasecmp(line, name, length) == 0 && line[length] == ':')
			return line + length + 1;
	}
	return NULL;
}

bool
http_header_has(const char *head, const char *name, const char *word)
{
	const char *line = header_of(head, name);
	const char *end = line == NULL ? NULL : strstr(line, "\r\n");
	const char *found = line == NULL ? NULL : strstr(line, word);

	return found != NULL && (end == NULL || found < end);
}

/* True if the Host header names this machine. This refuses web pages whose own
 * host name was made to resolve to this machine (DNS rebinding). */
static bool
is_for_us(const char *head)
{
	static const char *const names[] = { " localhost", " 127.0.0.1",
		" [::1]" };
	const char *host = header_of(head, "Host");

	if (host == NULL)
		return true;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);

		if (strncmp(host, names[i], length) == 0 &&
		    strchr(":\r", host[length]) != NULL)
			return true;
	}
	return false;
}

bool
http_is_path(const char *head, const char *path)
{
	const char *at = strchr(head, ' ');
	size_t length = strlen(path);

	return at != NULL && strncmp(at + 1, path, length) == 0 &&
	    strchr(" ?", at[1 + length]) != NULL;
}

/* The status with which a complete request is refused; NULL: it is not. */
static const char *
refusal_of(const char *head, const struct http_service *service)
{
	if (!is_for_us(head))
		return "421 Misdirected Request";
	return service->refusal(head, service->user);
}

/* ---- Connections ------------------------------------------------------- */

static void
client_enter(struct client *client, enum state state, int64_t rest_ms)
{
	client->state = state;
	client->until_ms = progress_clock_ms() + rest_ms;
}

static void
client_close(struct client *client)
{
	close(client->fd);
	http_page_drop(client->page);
	client->page = NULL;
	client->state = FREE;
}

/* The client that has been connected longest, and has had its chance; NULL if
 * there is none. */
static struct client *
oldest_client(int64_t now_ms)
{
	struct client *oldest = NULL;

	for (int i = 0; i < HTTP_CLIENTS; i++)
		if (clients[i].state != FREE &&
		    now_ms - clients[i].came_ms >= HTTP_GRACE_MS &&
		    (oldest == NULL || clients[i].came_ms < oldest->came_ms))
			oldest = &clients[i];
	return oldest;
}

/* A place for a new client; NULL if there is none now. */
static struct client *
free_place(void)
{
	struct client *oldest;

	for (int i = 0; i < HTTP_CLIENTS; i++)
		if (clients[i].state == FREE)
			return &clients[i];
	oldest = oldest_client(progress_clock_ms());
	if (oldest != NULL)
		client_close(oldest);
	return oldest;
}

/* ---- Answers ----------------------------------------------------------- */

/* Send what the system takes. */
static void
client_write(struct client *client)
{
	size_t head = client->sent < client->head_size ?
	    client->head_size - client->sent :
	    0;
	size_t body = client->sent > client->head_size ?
	    client->sent - client->head_size :
	    0;
	struct iovec parts[2] = {
		{ client->head + (client->head_size - head), head },
		{ client->page->text + body, client->page->size - body },
	};
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	ssize_t n = sendmsg(client->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			client_close(client);
		return;
	}
	client->sent += (size_t)n;
	if (client->sent < client->head_size + client->page->size)
		return;
	shutdown(client->fd, SHUT_WR);
	client_enter(client, CLOSING, HTTP_CLOSE_MS);
}

/* Answer with a page, of which the client gets this use. */
static void
client_answer(struct client *client, const char *status, struct http_page *page)
{
	int n = snprintf(client->head, sizeof(client->head),
	    "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
	    "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
	    status, page->type, page->size);

	client->head_size = (size_t)n;
	client->page = page;
	client->sent = 0;
	client_enter(client, WRITING, HTTP_ANSWER_MS);
	client_write(client);
}

static void
client_refuse(struct client *client, const char *status)
{
	char *text = NULL;
	int n = asprintf(&text, "%s\n", status);
	struct http_page *page = n < 0 ?
	    NULL :
	    http_page_new("text/plain; charset=utf-8", text, (size_t)n);

	if (page == NULL)
		client_close(client);
	else
		client_answer(client, status, page);
}

static void
client_read(struct client *client)
{
	ssize_t n = recv(client->fd, client->request + client->used,
	    HTTP_REQUEST_BYTES - 1 - client->used, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		client_close(client);
		return;
	}
	client->used += (size_t)n;
	client->request[client->used] = '\0';
	if (strstr(client->request, "\r\n\r\n") != NULL)
		client_enter(client, READY, HTTP_ANSWER_MS);
	else if (n == 0)
		client_refuse(client, "400 Bad Request");
	else if (client->used == HTTP_REQUEST_BYTES - 1)
		client_refuse(client, "431 Request Header Fields Too Large");
}

/* Drop what the client sends after its request. */
static void
client_drain(struct client *client)
{
	static char dropped[64 << 10];
	ssize_t n = recv(client->fd, dropped, sizeof(dropped), MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		client_close(client);
}

/* Accept clients while there are places. All that are waiting come in at once,
 * so that their requests share one refresh(). Returns false if the system
 * cannot connect any. */
static bool
accept_clients(int listener)
{
	for (int i = 0; i < HTTP_CLIENTS; i++) {
		struct client *client = free_place();
		int fd;

		if (client == NULL)
			return true;
		fd =
		    accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return errno != EMFILE && errno != ENFILE &&
			    errno != ENOBUFS && errno != ENOMEM;
		client->fd = fd;
		client->came_ms = progress_clock_ms();
		client->used = 0;
		client->request[0] = '\0';
		client_enter(client, READING, HTTP_REQUEST_MS);
		client_read(client);
	}
	return true;
}

/* ---- Turns ------------------------------------------------------------- */

/* Answer all complete requests. False after the last pages. */
static bool
answer_ready(const struct http_service *service)
{
	bool gathered = false;
	bool more = true;

	for (int i = 0; i < HTTP_CLIENTS; i++) {
		struct client *client = &clients[i];
		struct http_page *page;
		const char *refusal;

		if (client->state != READY)
			continue;
		refusal = refusal_of(client->request, service);
		if (refusal != NULL) {
			client_refuse(client, refusal);
			continue;
		}
		if (!gathered)
			more = service->refresh(service->user);
		gathered = true;
		page = service->page(client->request, service->user);
		if (page != NULL)
			client_answer(client, page->status, page);
		else
			client_refuse(client, "503 Service Unavailable");
	}
	return more && !(gathered && service->once);
}

static void
end_late_client(struct client *client, int64_t now_ms)
{
	if (client->state == FREE || now_ms < client->until_ms)
		return;
	if (client->state == READING)
		client_refuse(client, "408 Request Timeout");
	else
		client_close(client);
}

/* Keep the memory of unread answers below its limit, at the cost of the oldest
 * ones. */
static void
limit_unread(void)
{
	size_t bytes = 0;
	struct client *oldest = NULL;

	do {
		if (oldest != NULL)
			client_close(oldest);
		oldest = NULL;
		bytes = 0;
		for (int i = 0; i < HTTP_CLIENTS; i++) {
			struct client *client = &clients[i];

			if (client->state != WRITING)
				continue;
			bytes += client->page->size;
			if (oldest == NULL || client->came_ms < oldest->came_ms)
				oldest = client;
		}
	} while (bytes > UNREAD_BYTES && oldest != NULL);
}

static void
serve_client(struct client *client, short events)
{
	if (client->state == FREE || events == 0)
		return;
	if (client->state == READING)
		client_read(client);
	else if (client->state == WRITING)
		client_write(client);
	else if (client->state == CLOSING)
		client_drain(client);
}

/* Fill the array for poll(): the clients, then the listener unless it is -1 or
 * no place is free. Returns the milliseconds until something is due. */
static int
fill_port_polled(struct pollfd polled[HTTP_CLIENTS + 1], int listener)
{
	int64_t now_ms = progress_clock_ms();
	int64_t due_ms = now_ms + HTTP_REQUEST_MS;
	bool full = true;

	for (int i = 0; i < HTTP_CLIENTS; i++) {
		const struct client *client = &clients[i];
		bool writes = client->state == WRITING;

		full = full && client->state != FREE;
		polled[i] = (struct pollfd){
			.fd = client->state == FREE ? -1 : client->fd,
			.events = writes ? POLLOUT : POLLIN,
		};
		if (client->state != FREE && client->until_ms < due_ms)
			due_ms = client->until_ms;
	}
	full = full && oldest_client(now_ms) == NULL;
	polled[HTTP_CLIENTS] =
	    (struct pollfd){ .fd = full ? -1 : listener, .events = POLLIN };
	if (full && now_ms + HTTP_GRACE_MS < due_ms)
		due_ms = now_ms + HTTP_GRACE_MS;
	return due_ms > now_ms ? (int)(due_ms - now_ms) : 0;
}

/* True while an answer has not been sent. */
static bool
has_unsent(void)
{
	for (int i = 0; i < HTTP_CLIENTS; i++)
		if (clients[i].state == WRITING || clients[i].state == CLOSING)
			return true;
	return false;
}

/* Wait, and serve all that have come. Returns false if the system cannot
 * connect more clients now. */
static bool
port_turn(int listener)
{
	static struct pollfd polled[HTTP_CLIENTS + 1];
	int wait_ms = fill_port_polled(polled, listener);
	int64_t now_ms;
	bool fine = true;

	if (poll(polled, HTTP_CLIENTS + 1, wait_ms) < 0)
		return errno == EINTR;
	now_ms = progress_clock_ms();
	for (int i = 0; i < HTTP_CLIENTS; i++) {
		serve_client(&clients[i], polled[i].revents);
		end_late_client(&clients[i], now_ms);
	}
	if (polled[HTTP_CLIENTS].revents != 0)
		fine = accept_clients(listener);
	return fine;
}

void
http_port_serve(int listener, const struct http_service *service)
{
	bool go_on = true;

	while (go_on) {
		if (!port_turn(listener))
			poll(NULL, 0, REST_MS);
		go_on = answer_ready(service);
		limit_unread();
	}
	close(listener);
	for (int i = 0; i < HTTP_CLIENTS; i++)
		if (clients[i].state == READING)
			client_close(&clients[i]);
	while (has_unsent())
		port_turn(-1);
}

int
http_port_open(uint16_t *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_port = htons(*port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	const int yes = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
	    bind(fd, (struct sockaddr *)&address, size) != 0 ||
	    listen(fd, SOMAXCONN) != 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
		complain("port %u of this machine cannot be used: %s", *port,
		    strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	*port = ntohs(address.sin_port);
	return fd;
}
