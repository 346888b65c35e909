#include "tools/weir/export/page_write.h"

#include <string.h>

#include "tools/weir/page.h"

/* A built page may load nothing; a live page may ask its server. */
#define FORBIDDEN "default-src 'none'; "
#define ALLOWED "connect-src 'self'; "

/* Write the page up to the data. */
static void
write_head(const unsigned char *end, bool live, FILE *out)
{
	const unsigned char *rest = page_html;
	const unsigned char *policy = memmem(page_html,
	    (size_t)(end - page_html), FORBIDDEN, sizeof(FORBIDDEN) - 1);

	if (live && policy != NULL) {
		rest = policy + sizeof(FORBIDDEN) - 1;
		fwrite(page_html, 1, (size_t)(rest - page_html), out);
		fputs(ALLOWED, out);
	}
	fwrite(rest, 1, (size_t)(end - rest), out);
}

bool
page_write(const struct page_data *data, const struct page_data *before,
    bool live, FILE *out)
{
	const unsigned char *place =
	    memmem(page_html, page_bytes, PAGE_DATA, sizeof(PAGE_DATA) - 1);
	const unsigned char *rest = place + sizeof(PAGE_DATA) - 1;

	write_head(place, live, out);
	if (!page_data_write(data, out))
		return false;
	if (before != NULL) {
		putc('\n', out);
		if (!page_data_write(before, out))
			return false;
	}
	if (live)
		fputs("\nlive", out);
	fwrite(rest, 1, (size_t)(page_html + page_bytes - rest), out);
	return true;
}
