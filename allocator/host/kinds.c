/*
 * The kinds of page-locked memory, numbered.
 */
#include "allocator/host/kinds.h"

#include <weir/host.h>

#include "base/assert.h"

unsigned
host_kind(enum weir_host_source source, unsigned flags, bool coarse)
{
	ASSERT(source <= WEIR_HOST_FROM_DRIVER);
	if ((flags & WEIR_HOST_WRITE_COMBINED) != 0)
		source = WEIR_HOST_FROM_DRIVER;
	else if ((flags & WEIR_HOST_MAPPED) != 0 &&
	    source == WEIR_HOST_FROM_HANDLES && !coarse)
		source = WEIR_HOST_FROM_SYSTEM;
	if (!coarse)
		return (unsigned)source +
		    (source == WEIR_HOST_FROM_DRIVER ? flags : 0);
	return HOST_COARSE + HOST_COARSE_PLAIN * (unsigned)source + flags;
}

struct host_kind
host_kind_facts(unsigned kind)
{
	struct host_kind facts = { .coarse = kind >= HOST_COARSE };
	unsigned step = facts.coarse ? HOST_COARSE_PLAIN : 1;
	unsigned n = facts.coarse ? kind - HOST_COARSE : kind;
	unsigned source =
	    n / step < WEIR_HOST_FROM_DRIVER ? n / step : WEIR_HOST_FROM_DRIVER;

	ASSERT(kind < HOST_KINDS);
	facts.source = (enum weir_host_source)source;
	facts.flags = n - source * step;
	return facts;
}
