/*
 * A page at a port of this machine, for many clients at a time.
 *
 * Clients are not trusted. A request that is too long or slow, an answer that
 * is not read, and a connection above the number that is served at a time end
 * their own connection only (http_port.c).
 */
#ifndef TOOLS_WEIR_LIVE_HTTP_PORT_H
#define TOOLS_WEIR_LIVE_HTTP_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A page, which several answers share. The last one frees it. */
struct http_page {
	unsigned uses;
	const char *status; /* a constant; "200 OK" unless set */
	const char *type;   /* of its content, a constant */
	char *text;         /* from malloc() */
	size_t size;
};

/* A page with one use, which gets `text`. */
struct http_page *http_page_new(const char *type, char *text, size_t size);
struct http_page *http_page_share(struct http_page *page);
/* Drop one use. `page` may be NULL. */
void http_page_drop(struct http_page *page);

struct http_service {
	/* Gather what the next pages show. This is called after the requests
	 * that these pages answer have arrived. False: these are the last
	 * pages. */
	bool (*refresh)(void *user);
	/* The page for a request, with one more use; NULL: there is none
	 * now. */
	struct http_page *(*page)(const char *head, void *user);
	/* The status with which a request to this machine is refused before
	 * anything is gathered for it; NULL: it is not refused. */
	const char *(*refusal)(const char *head, void *user);
	void *user;
	bool once; /* end after the first page */
};

/* Is a word in the value of a header? False if there is no such header. */
bool http_header_has(const char *head, const char *name, const char *word);

/* True if the request has this path, with or without a query. */
bool http_is_path(const char *head, const char *path);

/* Listen at a port of 127.0.0.1, 0 for any that is free. *port is the port
 * then. -1, and a complaint, on failure. */
int http_port_open(uint16_t *port);

/* Serve until refresh() returns false. Closes the listener. */
void http_port_serve(int listener, const struct http_service *service);

#endif
