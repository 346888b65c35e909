#include "plugins/torch/names.h"

#include <pthread.h>
#include <stdlib.h>

#include "plugins/torch/forks.h"

struct name {
	int device;
	uint64_t segment_id[2];
	struct weir_torch_id id;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by the lock. There are few: one for each existing pool. */
static struct name *names;
static size_t count;
static size_t room;

static struct name *
name_find(int device, const uint64_t segment_id[2])
{
	for (size_t i = 0; i < count; i++)
		if (names[i].device == device &&
		    names[i].segment_id[0] == segment_id[0] &&
		    names[i].segment_id[1] == segment_id[1])
			return &names[i];
	return NULL;
}

enum weir_status
names_add(int device, const uint64_t segment_id[2], struct weir_torch_id id)
{
	enum weir_status status = WEIR_OK;

	pthread_mutex_lock(&lock);
	if (count == room) {
		size_t more = room == 0 ? 16 : 2 * room;
		struct name *grown = realloc(names, more * sizeof(*names));
		if (grown != NULL) {
			names = grown;
			room = more;
		}
	}
	if (count < room)
		names[count++] = (struct name){ device,
			{ segment_id[0], segment_id[1] }, id };
	else
		status = WEIR_EHOSTMEM;
	pthread_mutex_unlock(&lock);
	return status;
}

void
names_remove(int device, const uint64_t segment_id[2])
{
	pthread_mutex_lock(&lock);
	struct name *name = name_find(device, segment_id);
	if (name != NULL)
		*name = names[--count];
	pthread_mutex_unlock(&lock);
}

struct weir_torch_id
weir_torch_pool_name(int device, const uint64_t segment_pool_id[2])
{
	if (forks_refused())
		return (struct weir_torch_id){ 0 };
	struct weir_torch_id id = { segment_pool_id[0], segment_pool_id[1] };

	if (id.graph == 0 && id.user == 0)
		return id;
	pthread_mutex_lock(&lock);
	const struct name *name = name_find(device, segment_pool_id);
	if (name != NULL)
		id = name->id;
	pthread_mutex_unlock(&lock);
	return id;
}
