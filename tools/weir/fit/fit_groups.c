#include "tools/weir/fit/fit_groups.h"

#include <math.h>
#include <stdlib.h>

#include "tools/weir/fit/tuning.h"

uint64_t
fit_place_of(const struct fit_run *run, uint32_t alloc, bool lives)
{
	uint64_t hash = 1;

	if (!lives && !run->allocs[alloc].vague)
		return run->allocs[alloc].key;
	for (int side = -FIT_AROUND; side <= FIT_AROUND; side++) {
		int64_t at = (int64_t)alloc + side;
		const struct fit_alloc *near;
		uint32_t life;

		if (at < 0 || at >= run->count)
			continue;
		near = &run->allocs[at];
		life = near->end == FIT_NEVER ? FIT_LONG_LIFE + 1 :
						near->end - (uint32_t)at;
		if (life > FIT_LONG_LIFE && near->end != FIT_NEVER)
			life = FIT_LONG_LIFE;
		if (!lives)
			life = 0;
		hash = (hash ^ near->key) * UINT64_C(0x9e3779b97f4a7c15);
		hash =
		    (hash ^ hash >> 29 ^ life) * UINT64_C(0x9e3779b97f4a7c15);
	}
	return hash;
}

static int
compare_groups(const void *a, const void *b)
{
	const struct fit_group *first = a;
	const struct fit_group *second = b;

	return first->place < second->place ? -1 : first->place > second->place;
}

bool
fit_groups_make(const struct fit_run *run, bool lives, struct fit_groups *out)
{
	uint32_t kept = 0;

	*out = (struct fit_groups){ 0 };
	out->items = calloc((size_t)run->count + 1, sizeof(*out->items));
	if (out->items == NULL)
		return false;
	for (uint32_t i = 0; i < run->count; i++) {
		uint64_t bytes = run->allocs[i].bytes;

		out->items[i] = (struct fit_group){
			.place = fit_place_of(run, i, lives),
			.sum = (double)bytes,
			.squares = (double)bytes * (double)bytes,
			.least = bytes,
			.most = bytes,
			.count = 1,
		};
	}
	qsort(out->items, run->count, sizeof(*out->items), compare_groups);
	for (uint32_t i = 0; i < run->count; i++) {
		struct fit_group *group = &out->items[i];
		struct fit_group *last =
		    kept == 0 ? NULL : &out->items[kept - 1];

		if (last == NULL || last->place != group->place) {
			out->items[kept++] = *group;
			continue;
		}
		last->sum += group->sum;
		last->squares += group->squares;
		last->count++;
		if (group->least < last->least)
			last->least = group->least;
		if (group->most > last->most)
			last->most = group->most;
	}
	out->count = kept;
	return true;
}

void
fit_groups_drop(struct fit_groups *groups)
{
	free(groups->items);
	*groups = (struct fit_groups){ 0 };
}

double
fit_group_spread(const struct fit_group *group)
{
	double mean = group->sum / group->count;

	return sqrt(fmax(0, group->squares / group->count - mean * mean));
}

struct fit_group *
fit_groups_find(const struct fit_groups *groups, uint64_t place)
{
	struct fit_group key = { .place = place };

	return bsearch(
	    &key, groups->items, groups->count, sizeof(key), compare_groups);
}
