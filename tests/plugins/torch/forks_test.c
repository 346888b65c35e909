/*
 * A forked child can call the adapter, whatever the parent's threads did.
 */
#include "plugins/torch/forks.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugins/torch/weir_torch.h"
#include "tests/support/device.h"

enum { HANG_S = 60 };

static const struct weir_torch_id id = { 7, 0 };

static bool
never(void *closure, weir_stream stream)
{
	(void)closure;
	(void)stream;
	return false;
}

static const struct weir_torch_filter filter = { .matches = never };
static const struct weir_torch_contexts no_contexts;
static const struct weir_torch_history history = { .on = true,
	.max_entries = 50 };

static void
see_event(const struct weir_torch_event *event, void *user)
{
	(void)event;
	(void)user;
}

static void
see_annotation(void *annotation, void *user)
{
	(void)annotation;
	(void)user;
}

/* Every mutex of the adapter, with its own pool for each caller. */
static void
call_all(struct weir_torch_id pool)
{
	char bytes[WEIR_TORCH_HANDLE_MAX];
	const uint64_t segment[2] = { pool.graph, 1 };
	size_t length, offset;

	weir_torch_pool_hold(0, pool, NULL);
	weir_torch_pool_begin(0, pool, &filter);
	weir_torch_pool_uses(0, pool);
	weir_torch_pool_name(0, segment);
	weir_torch_pool_end(0, pool);
	weir_torch_pool_release(0, pool);
	weir_torch_empty(pool);
	weir_torch_host_begin(pool, &filter);
	void *host = weir_torch_host_malloc(5000, NULL);
	weir_torch_host_record(host, NULL);
	weir_torch_host_free(host);
	weir_torch_host_end(pool);
	weir_torch_host_release(pool);
	weir_torch_conf_follow("max_split_size_mb:200");
	weir_torch_conf_follow("max_split_size_mb:300");
	weir_torch_history_set(&history, &no_contexts);
	weir_torch_metadata_set("text");
	weir_torch_annotate(NULL);
	void *ptr = weir_malloc(5000, NULL);
	weir_torch_context_of_block((uint64_t)(uintptr_t)ptr);
	weir_torch_share(ptr, bytes, sizeof(bytes), &length, &offset);
	weir_torch_free(ptr);
	weir_torch_history_each(see_event, NULL);
	weir_torch_annotations_each(see_annotation, NULL);
}

static atomic_bool stop;

static void *
keep_calling(void *number)
{
	while (!atomic_load(&stop))
		call_all((struct weir_torch_id){ (uintptr_t)number, 0 });
	return NULL;
}

static void
expect_return(void)
{
	pid_t child = fork();
	int status;

	EXPECT_GE(child, 0);
	if (child == 0) {
		alarm(HANG_S);
		EXPECT(forks_refused());
		EXPECT_EQ(weir_last_status(), WEIR_EFORK);
		call_all(id);
		call_all((struct weir_torch_id){ 1, 0 });
		_exit(0);
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	if (WIFSIGNALED(status))
		FAIL("a forked child %s",
		    WTERMSIG(status) == SIGALRM ? "hangs" :
						  strsignal(WTERMSIG(status)));
	EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_TIMEOUT(no_call_hangs_in_a_forked_child_of_busy_threads, 600)
{
	enum { THREADS = 3 };
	pthread_t threads[THREADS];

	call_all(id);
	for (uintptr_t i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_create(
			      &threads[i], NULL, keep_calling, (void *)(i + 1)),
		    0);
	for (uint64_t i = 0; i < test_effort(100); i++)
		expect_return();
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_join(threads[i], NULL), 0);
	EXPECT(!forks_refused());
	expect_healthy();
}

TEST(a_child_forked_before_the_first_use_is_served)
{
	int status;
	pid_t child = fork();

	EXPECT_GE(child, 0);
	if (child == 0) {
		EXPECT(!forks_refused());
		EXPECT_OK(weir_torch_pool_hold(0, id, NULL));
		EXPECT_EQ(weir_torch_pool_uses(0, id), 1);
		EXPECT_OK(weir_torch_pool_release(0, id));
		_exit(0);
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
}
