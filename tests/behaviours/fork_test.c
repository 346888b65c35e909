/*
 * Every public call in a forked child, whatever the threads of its parent were
 * doing at the fork: it is refused, or needs no GPU, and returns in any case.
 * The table below has every call that libweir.so exports, and a test compares
 * the two. Debug builds also trap if a child acquires a lock.
 */
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/ctl.h>
#include <weir/exchange.h>
#include <weir/graph.h>
#include <weir/host.h>
#include <weir/ipc.h>
#include <weir/nvtx.h>
#include <weir/save.h>
#include <weir/sleep.h>
#include <weir/trace.h>

#include "tests/support/command.h"
#include "tests/support/device.h"

enum { HANG_S = 60, TEXT = 256 };

/* The parent's objects. */
static struct {
	weir_stream stream, other;
	void *block, *host;
	struct weir_pool *pool, *routed;
	struct weir_checkpoint *checkpoint;
	struct weir_restored restored;
	struct weir_route *route;
	struct weir_graph *graph;
	struct weir_event *event;
	struct weir_storage *storage;
	struct weir_tensor *device, *plain;
	struct weir_dl_versioned *lent;
	struct weir_ipc_export *shared;
	struct weir_loaded *loaded;
	char file[TEXT], own_file[TEXT];
} w;

/* Where calls write their results. */
static struct {
	char text[TEXT];
	const char *name;
	uint64_t value;
	size_t size, more;
	double real;
	float milliseconds;
	enum weir_host_source source;
	int number, second;
	bool flag;
	weir_stream stream;
	void *ptr;
	struct weir_ctl ctl;
	struct weir_stats stats;
	struct weir_option option;
	struct weir_block_info block;
	struct weir_device_info device;
	struct weir_telemetry telemetry;
	struct weir_history_info history;
	struct weir_storage_info storage_info;
	struct weir_tensor_info tensor_info;
	struct weir_ipc_info ipc_info;
	struct weir_ipc_handle handle;
	struct weir_ipc_tensor shared_tensor;
	struct weir_place place;
	struct weir_pool *pool;
	struct weir_checkpoint *checkpoint;
	struct weir_restored restored;
	struct weir_route *route;
	struct weir_graph *graph;
	struct weir_event *event;
	struct weir_storage *storage;
	struct weir_tensor *tensor;
	struct weir_dl_versioned *versioned;
	struct weir_dl_managed *managed;
	struct weir_dl_device dl_device;
	struct weir_dl_tensor dl_tensor;
	struct weir_dl_exchange exchange;
	struct weir_array_interface array;
	struct weir_ipc_export *shared;
	struct weir_ipc_import *import;
	struct weir_loaded *loaded;
	enum weir_dtype dtype;
} r;

static const int64_t lengths[] = { 2, 3 };
static const float one = 1;

/* ---- The calls ---------------------------------------------------------- */

static void
see_trace(const struct weir_trace *trace, void *user)
{
	(void)trace;
	(void)user;
}

static void
see_oom(const struct weir_oom *oom, void *user)
{
	(void)oom;
	(void)user;
}

static void
see_memory(const struct weir_memory_event *event, void *user)
{
	(void)event;
	(void)user;
}

static void
see_ctl(const struct weir_ctl *value, void *user)
{
	(void)value;
	(void)user;
}

static void
see_segment(const struct weir_segment_view *segment, void *user)
{
	(void)segment;
	(void)user;
}

static bool
any_stream(weir_stream stream, void *closure)
{
	(void)stream;
	(void)closure;
	return false;
}

static void
take_back(void *closure, void *ptr)
{
	(void)closure;
	(void)ptr;
}

/* The status of a malloc-like call. */
static enum weir_status
status_of(const void *ptr)
{
	return ptr != NULL ? WEIR_OK : weir_last_status();
}

/* How a call ends in a forked child. */
enum outcome {
	REFUSED, /* WEIR_EFORK, and the text says so */
	DONE,    /* it needs no GPU, or there is nothing to do: WEIR_OK */
	EITHER,  /* it answers from memory, in whatever way */
};

/* X(name, outcome, a call as a status): the calls that end something last. */
#define CALLS(X)                                                               \
	X(weir_status_name, EITHER,                                            \
	    ((void)weir_status_name(WEIR_OK), WEIR_OK))                        \
	X(weir_status_text, EITHER,                                            \
	    ((void)weir_status_text(WEIR_OK), WEIR_OK))                        \
	X(weir_last_status, EITHER, ((void)weir_last_status(), WEIR_OK))       \
	X(weir_last_error, EITHER, ((void)weir_last_error(), WEIR_OK))         \
	X(weir_last_errno, EITHER, ((void)weir_last_errno(), WEIR_OK))         \
	X(weir_check_driver, DONE, weir_check_driver(0))                       \
	X(weir_version, EITHER, ((void)weir_version(), WEIR_OK))               \
	X(weir_init, REFUSED, weir_init())                                     \
	X(weir_malloc, REFUSED, status_of(weir_malloc(1000, w.stream)))        \
	X(weir_malloc_on, REFUSED,                                             \
	    status_of(weir_malloc_on(0, 3 << 20, WEIR_STREAM_ANY)))            \
	X(weir_malloc_primary, REFUSED,                                        \
	    status_of(weir_malloc_primary(0, 100, NULL)))                      \
	X(weir_host_malloc, REFUSED, status_of(weir_host_malloc(1000)))        \
	X(weir_host_malloc_on, REFUSED,                                        \
	    status_of(weir_host_malloc_on(0, 1000, 0)))                        \
	X(weir_pool_malloc, REFUSED,                                           \
	    status_of(weir_pool_malloc(w.pool, 100, w.stream)))                \
	X(weir_record_stream, REFUSED, weir_record_stream(w.block, w.other))   \
	X(weir_record_use, REFUSED, weir_record_use(w.block, w.other))         \
	X(weir_pin, REFUSED, weir_pin(w.block))                                \
	X(weir_unpin, REFUSED, weir_unpin(w.block))                            \
	X(weir_block_info, REFUSED, weir_block_info(w.block, &r.block))        \
	X(weir_trim, REFUSED, weir_trim(0, 0, &r.size))                        \
	X(weir_sleep, REFUSED, weir_sleep(0, NULL, NULL))                      \
	X(weir_wake, REFUSED, weir_wake(0, 0, NULL))                           \
	X(weir_sleep_hook_add, DONE,                                           \
	    weir_sleep_hook_add(&(struct weir_sleep_hook){                     \
		.struct_size = sizeof(struct weir_sleep_hook) }))              \
	X(weir_sleep_hook_remove, DONE,                                        \
	    weir_sleep_hook_remove(&(struct weir_sleep_hook){                  \
		.struct_size = sizeof(struct weir_sleep_hook) }))              \
	X(weir_is_asleep, DONE,                                                \
	    ((void)weir_is_asleep(WEIR_DEVICE_ALL), WEIR_OK))                  \
	X(weir_sleep_reason_text, DONE,                                        \
	    ((void)weir_sleep_reason_text(WEIR_SLEEP_PINNED), WEIR_OK))        \
	X(weir_memory_info, REFUSED, weir_memory_info(0, &r.size, &r.more))    \
	X(weir_largest_free, REFUSED, weir_largest_free(0, w.stream, &r.size)) \
	X(weir_limit_set, REFUSED, weir_limit_set(0, (size_t)1 << 30))         \
	X(weir_limit_get, REFUSED, weir_limit_get(0, &r.size))                 \
	X(weir_fraction_set, REFUSED, weir_fraction_set(0, 0.5))               \
	X(weir_fraction_get, REFUSED, weir_fraction_get(0, &r.real))           \
	X(weir_stats, REFUSED, weir_stats(0, &r.stats))                        \
	X(weir_stats_stream, REFUSED,                                          \
	    weir_stats_stream(0, w.stream, &r.stats))                          \
	X(weir_stats_reset_peak, REFUSED, weir_stats_reset_peak(0))            \
	X(weir_stats_reset_accumulated, REFUSED,                               \
	    weir_stats_reset_accumulated(0))                                   \
	X(weir_stats_item, EITHER,                                             \
	    ((void)weir_stats_item(&r.stats, 1, &r.name, &r.value), WEIR_OK))  \
	X(weir_check, EITHER,                                                  \
	    ((void)weir_check(r.text, sizeof(r.text)), WEIR_OK))               \
	X(weir_options_set, REFUSED, weir_options_set("prefer:memory"))        \
	X(weir_options_set_pytorch, REFUSED,                                   \
	    weir_options_set_pytorch("max_split_size_mb:200"))                 \
	X(weir_option_at, REFUSED, weir_option_at(3, &r.option))               \
	X(weir_log_set, DONE, weir_log_set(WEIR_LOG_WARN, NULL, NULL))         \
	X(weir_device_count, REFUSED, weir_device_count(&r.number))            \
	X(weir_get_device, REFUSED, weir_get_device(&r.number))                \
	X(weir_set_device, REFUSED, weir_set_device(0))                        \
	X(weir_peer_access, REFUSED, weir_peer_access(0, 0))                   \
	X(weir_device_info, REFUSED, weir_device_info(0, &r.device))           \
	X(weir_telemetry, REFUSED, weir_telemetry(0, &r.telemetry))            \
	X(weir_ctl_get, REFUSED, weir_ctl_get("stats.0.held", &r.ctl))         \
	X(weir_ctl_set, REFUSED, weir_ctl_set("option.prefer", "memory"))      \
	X(weir_ctl_list, REFUSED, weir_ctl_list("option", see_ctl, NULL))      \
	X(weir_stream_create, REFUSED, weir_stream_create(0, 0, &r.stream))    \
	X(weir_stream_from_pool, REFUSED,                                      \
	    weir_stream_from_pool(0, 0, &r.stream))                            \
	X(weir_stream_current, REFUSED, weir_stream_current(0, &r.stream))     \
	X(weir_stream_set_current, REFUSED, weir_stream_set_current(w.stream)) \
	X(weir_stream_report_work, REFUSED, weir_stream_report_work(w.stream)) \
	X(weir_stream_query, REFUSED, weir_stream_query(w.stream))             \
	X(weir_stream_synchronize, REFUSED, weir_stream_synchronize(w.stream)) \
	X(weir_copy, REFUSED, weir_copy(w.block, &one, sizeof(one), w.stream)) \
	X(weir_stream_wait_stream, REFUSED,                                    \
	    weir_stream_wait_stream(w.stream, w.other))                        \
	X(weir_stream_device, REFUSED,                                         \
	    weir_stream_device(w.stream, &r.number))                           \
	X(weir_stream_priority, REFUSED,                                       \
	    weir_stream_priority(w.stream, &r.number))                         \
	X(weir_stream_format, EITHER,                                          \
	    ((void)weir_stream_format(w.stream, r.text, sizeof(r.text)),       \
		WEIR_OK))                                                      \
	X(weir_device_synchronize, REFUSED, weir_device_synchronize(0))        \
	X(weir_event_create, REFUSED, weir_event_create(0, &r.event))          \
	X(weir_event_record, REFUSED, weir_event_record(w.event, w.stream))    \
	X(weir_event_query, REFUSED, weir_event_query(w.event))                \
	X(weir_event_synchronize, REFUSED, weir_event_synchronize(w.event))    \
	X(weir_stream_wait_event, REFUSED,                                     \
	    weir_stream_wait_event(w.stream, w.event))                         \
	X(weir_event_elapsed_ms, REFUSED,                                      \
	    weir_event_elapsed_ms(w.event, w.event, &r.milliseconds))          \
	X(weir_event_handle, EITHER,                                           \
	    ((void)weir_event_handle(w.event), WEIR_OK))                       \
	X(weir_event_format, EITHER,                                           \
	    ((void)weir_event_format(w.event, r.text, sizeof(r.text)),         \
		WEIR_OK))                                                      \
	X(weir_host_is_pinned, EITHER,                                         \
	    ((void)weir_host_is_pinned(w.host), WEIR_OK))                      \
	X(weir_host_record, REFUSED, weir_host_record(w.host, w.stream))       \
	X(weir_host_register, REFUSED, weir_host_register(&r, 4096, 0))        \
	X(weir_host_unregister, EITHER, weir_host_unregister(&r))              \
	X(weir_host_reserve, REFUSED, weir_host_reserve(0, 4 * MIB))           \
	X(weir_host_source, REFUSED, weir_host_source(0, &r.source))           \
	X(weir_host_source_name, EITHER,                                       \
	    ((void)weir_host_source_name(WEIR_HOST_FROM_SYSTEM), WEIR_OK))     \
	X(weir_host_trim, REFUSED, weir_host_trim(0, 0, &r.size))              \
	X(weir_host_stats, REFUSED, weir_host_stats(0, &r.stats))              \
	X(weir_host_stats_reset_peak, REFUSED, weir_host_stats_reset_peak(0))  \
	X(weir_host_stats_reset_accumulated, REFUSED,                          \
	    weir_host_stats_reset_accumulated(0))                              \
	X(weir_trace_callback_add, REFUSED,                                    \
	    weir_trace_callback_add(                                           \
		WEIR_TRACE_MEMORY_ALLOCATION, see_trace, NULL))                \
	X(weir_trace_callback_remove, REFUSED,                                 \
	    weir_trace_callback_remove(                                        \
		WEIR_TRACE_MEMORY_ALLOCATION, see_trace, NULL))                \
	X(weir_oom_observer_add, REFUSED,                                      \
	    weir_oom_observer_add(see_oom, NULL))                              \
	X(weir_oom_observer_remove, REFUSED,                                   \
	    weir_oom_observer_remove(see_oom, NULL))                           \
	X(weir_memory_observer_add, REFUSED,                                   \
	    weir_memory_observer_add(see_memory, NULL))                        \
	X(weir_memory_observer_remove, REFUSED,                                \
	    weir_memory_observer_remove(see_memory, NULL))                     \
	X(weir_history_start, REFUSED, weir_history_start(NULL))               \
	X(weir_history_stop, REFUSED, weir_history_stop())                     \
	X(weir_history_info, REFUSED, weir_history_info(0, &r.history))        \
	X(weir_python_hold, DONE, (weir_python_hold(), WEIR_OK))               \
	X(weir_python_drop, DONE, (weir_python_drop(), WEIR_OK))               \
	X(weir_metadata_set, REFUSED, weir_metadata_set("new in the child"))   \
	X(weir_metadata_get, EITHER, ((void)weir_metadata_get(), WEIR_OK))     \
	X(weir_compile_context_push, REFUSED,                                  \
	    weir_compile_context_push("new"))                                  \
	X(weir_compile_context_pop, REFUSED, weir_compile_context_pop())       \
	X(weir_annotate, REFUSED,                                              \
	    weir_annotate("new too", WEIR_STAGE_START, 0))                     \
	X(weir_snapshot_write, REFUSED,                                        \
	    weir_snapshot_write(w.own_file, WEIR_SNAPSHOT_PICKLE, NULL))       \
	X(weir_segments_visit, REFUSED,                                        \
	    weir_segments_visit(NULL, see_segment, NULL))                      \
	X(weir_nvtx_active, EITHER, ((void)weir_nvtx_active(), WEIR_OK))       \
	X(weir_nvtx_mark, DONE, (weir_nvtx_mark("mark"), WEIR_OK))             \
	X(weir_nvtx_range_push, EITHER,                                        \
	    ((void)weir_nvtx_range_push("range"), WEIR_OK))                    \
	X(weir_nvtx_range_pop, EITHER, ((void)weir_nvtx_range_pop(), WEIR_OK)) \
	X(weir_nvtx_range_start, EITHER,                                       \
	    ((void)weir_nvtx_range_start("range"), WEIR_OK))                   \
	X(weir_nvtx_range_end, DONE, (weir_nvtx_range_end(1), WEIR_OK))        \
	X(weir_nvtx_name_stream, DONE,                                         \
	    (weir_nvtx_name_stream(w.stream, "name"), WEIR_OK))                \
	X(weir_nvtx_name_thread, DONE,                                         \
	    (weir_nvtx_name_thread("name"), WEIR_OK))                          \
	X(weir_nvtx_name_memory, EITHER,                                       \
	    ((void)weir_nvtx_name_memory(w.block, "name"), WEIR_OK))           \
	X(weir_nvtx_forget, DONE, (weir_nvtx_forget(NULL), WEIR_OK))           \
	X(weir_pool_create, REFUSED, weir_pool_create(0, NULL, 0, &r.pool))    \
	X(weir_pool_flags_set, REFUSED,                                        \
	    weir_pool_flags_set(w.pool, WEIR_POOL_KEEP, WEIR_POOL_KEEP))       \
	X(weir_pool_segment_id, DONE,                                          \
	    (weir_pool_segment_id(w.pool, (uint64_t[2]){ 0 }), WEIR_OK))       \
	X(weir_pool_acquire, REFUSED, weir_pool_acquire(w.pool))               \
	X(weir_pool_id, EITHER, ((void)weir_pool_id(w.pool), WEIR_OK))         \
	X(weir_pool_name_set, REFUSED, weir_pool_name_set(w.pool, "name"))     \
	X(weir_pool_name, DONE,                                                \
	    (weir_pool_name(w.pool, (char[WEIR_POOL_NAME_SIZE]){ 0 }),         \
		WEIR_OK))                                                      \
	X(weir_pool_find, REFUSED,                                             \
	    weir_pool_find(weir_pool_id(w.pool), &r.pool))                     \
	X(weir_pool_use_count, EITHER,                                         \
	    ((void)weir_pool_use_count(w.pool), WEIR_OK))                      \
	X(weir_pool_stats, REFUSED, weir_pool_stats(w.pool, &r.stats))         \
	X(weir_pool_trim, REFUSED, weir_pool_trim(w.pool, 0, &r.size))         \
	X(weir_pool_check_live, REFUSED,                                       \
	    weir_pool_check_live(w.pool, NULL, 0, &r.flag))                    \
	X(weir_pool_suspend, REFUSED,                                          \
	    weir_pool_suspend(w.pool, true, &r.size))                          \
	X(weir_pool_resume, REFUSED, weir_pool_resume(w.pool))                 \
	X(weir_checkpoint_take, REFUSED,                                       \
	    weir_checkpoint_take(w.pool, &r.checkpoint))                       \
	X(weir_checkpoint_restore, REFUSED,                                    \
	    weir_checkpoint_restore(w.pool, w.checkpoint, &r.restored))        \
	X(weir_restored_drop, DONE,                                            \
	    (weir_restored_drop(&w.restored), WEIR_OK))                        \
	X(weir_checkpoint_drop, DONE,                                          \
	    (weir_checkpoint_drop(w.checkpoint), WEIR_OK))                     \
	X(weir_route_thread, REFUSED, weir_route_thread(w.pool, &r.route))     \
	X(weir_route_stream, REFUSED,                                          \
	    weir_route_stream(w.pool, w.stream, &r.route))                     \
	X(weir_route_filter, REFUSED,                                          \
	    weir_route_filter(w.pool, any_stream, NULL, &r.route))             \
	X(weir_route_end, DONE, (weir_route_end(w.route), WEIR_OK))            \
	X(weir_pool_release, DONE, (weir_pool_release(w.pool), WEIR_OK))       \
	X(weir_graph_create, REFUSED, weir_graph_create(0, &r.graph))          \
	X(weir_graph_capture_begin, REFUSED,                                   \
	    weir_graph_capture_begin(                                          \
		w.graph, w.stream, NULL, WEIR_CAPTURE_RELAXED))                \
	X(weir_graph_register, REFUSED,                                        \
	    weir_graph_register(w.graph, w.stream, NULL))                      \
	X(weir_graph_capture_end, REFUSED, weir_graph_capture_end(w.graph))    \
	X(weir_graph_instantiate, REFUSED, weir_graph_instantiate(w.graph))    \
	X(weir_graph_replay, REFUSED, weir_graph_replay(w.graph, w.stream))    \
	X(weir_graph_pool, REFUSED, weir_graph_pool(w.graph, &r.pool))         \
	X(weir_graph_handle, REFUSED, weir_graph_handle(w.graph, &r.ptr))      \
	X(weir_graph_exec, EITHER, ((void)weir_graph_exec(w.graph), WEIR_OK))  \
	X(weir_graph_nodes, REFUSED, weir_graph_nodes(w.graph, &r.size))       \
	X(weir_graph_reset, REFUSED, weir_graph_reset(w.graph))                \
	X(weir_graph_destroy, DONE, (weir_graph_destroy(w.graph), WEIR_OK))    \
	X(weir_ipc_export, REFUSED,                                            \
	    weir_ipc_export(w.block, w.stream, &r.shared))                     \
	X(weir_ipc_lend, REFUSED,                                              \
	    weir_ipc_lend(w.block, w.stream, take_back, NULL, &r.shared))      \
	X(weir_ipc_export_event, REFUSED,                                      \
	    weir_ipc_export_event(w.event, &r.shared))                         \
	X(weir_ipc_handle_of, REFUSED,                                         \
	    weir_ipc_handle_of(w.shared, &r.handle))                           \
	X(weir_ipc_peers, EITHER, ((void)weir_ipc_peers(w.shared), WEIR_OK))   \
	X(weir_ipc_opened, EITHER, ((void)weir_ipc_opened(w.shared), WEIR_OK)) \
	X(weir_ipc_open, REFUSED,                                              \
	    weir_ipc_open(&r.handle, 0, w.stream, &r.import))                  \
	X(weir_ipc_info, REFUSED, weir_ipc_info(NULL, &r.ipc_info))            \
	X(weir_ipc_close, EITHER, weir_ipc_close(NULL, w.stream))              \
	X(weir_ipc_share_tensor, REFUSED,                                      \
	    weir_ipc_share_tensor(                                             \
		w.device, w.stream, &r.shared_tensor, &r.shared))              \
	X(weir_ipc_open_tensor, REFUSED,                                       \
	    weir_ipc_open_tensor(&r.shared_tensor, 0, w.stream, &r.tensor))    \
	X(weir_ipc_view, REFUSED, weir_ipc_view(NULL, w.stream, &r.tensor))    \
	X(weir_ipc_torch_handle, REFUSED,                                      \
	    weir_ipc_torch_handle(                                             \
		w.shared, r.text, sizeof(r.text), &r.size, &r.more))           \
	X(weir_ipc_torch_fabric_handle, REFUSED,                               \
	    weir_ipc_torch_fabric_handle(                                      \
		w.shared, r.text, sizeof(r.text), &r.size, &r.more))           \
	X(weir_ipc_torch_open, REFUSED,                                        \
	    weir_ipc_torch_open(r.text, 64, 0, 100, 0, &r.import))             \
	X(weir_ipc_release, DONE, (weir_ipc_release(w.shared), WEIR_OK))       \
	X(weir_dtype_size, EITHER,                                             \
	    ((void)weir_dtype_size(WEIR_FLOAT32), WEIR_OK))                    \
	X(weir_dtype_name, EITHER,                                             \
	    ((void)weir_dtype_name(WEIR_FLOAT32), WEIR_OK))                    \
	X(weir_dtype_find, DONE, weir_dtype_find("float32", &r.dtype))         \
	X(weir_memory_name, EITHER,                                            \
	    ((void)weir_memory_name(WEIR_MEMORY_HOST), WEIR_OK))               \
	X(weir_place_parse, REFUSED, weir_place_parse("cuda:0", &r.place))     \
	X(weir_storage_create, REFUSED,                                        \
	    weir_storage_create(NULL, 1000, &r.storage))                       \
	X(weir_storage_wrap, REFUSED,                                          \
	    weir_storage_wrap(                                                 \
		&(struct weir_foreign){                                        \
		    .struct_size = sizeof(struct weir_foreign),                \
		    .data = w.block,                                           \
		    .bytes = 100 },                                            \
		&r.storage))                                                   \
	X(weir_storage_acquire, EITHER,                                        \
	    ((void)weir_storage_acquire(w.storage), WEIR_OK))                  \
	X(weir_storage_info, DONE,                                             \
	    weir_storage_info(w.storage, &r.storage_info))                     \
	X(weir_storage_release, DONE,                                          \
	    (weir_storage_release(w.storage), WEIR_OK))                        \
	X(weir_tensor_empty, REFUSED,                                          \
	    weir_tensor_empty(WEIR_FLOAT32, 2, lengths, NULL, &r.tensor))      \
	X(weir_tensor_over, EITHER,                                            \
	    weir_tensor_over(w.storage,                                        \
		&(struct weir_layout){                                         \
		    .struct_size = sizeof(struct weir_layout),                 \
		    .dtype = WEIR_UINT8 },                                     \
		w.stream, &r.tensor))                                          \
	X(weir_tensor_info, DONE, weir_tensor_info(w.device, &r.tensor_info))  \
	X(weir_tensor_format, EITHER,                                          \
	    ((void)weir_tensor_format(w.device, r.text, sizeof(r.text)),       \
		WEIR_OK))                                                      \
	X(weir_tensor_alias, EITHER,                                           \
	    weir_tensor_alias(w.device, w.stream, &r.tensor))                  \
	X(weir_tensor_slice, EITHER,                                           \
	    weir_tensor_slice(                                                 \
		w.device, 0, &(struct weir_slice){ 0, 1, 1 }, &r.tensor))      \
	X(weir_tensor_narrow, EITHER,                                          \
	    weir_tensor_narrow(w.device, 0, 0, 1, &r.tensor))                  \
	X(weir_tensor_select, EITHER,                                          \
	    weir_tensor_select(w.device, 0, 0, &r.tensor))                     \
	X(weir_tensor_permute, EITHER,                                         \
	    weir_tensor_permute(w.device, (const int[]){ 1, 0 }, &r.tensor))   \
	X(weir_tensor_transpose, EITHER,                                       \
	    weir_tensor_transpose(w.device, 0, 1, &r.tensor))                  \
	X(weir_tensor_expand, EITHER,                                          \
	    weir_tensor_expand(w.device, 2, lengths, &r.tensor))               \
	X(weir_tensor_reshape, EITHER,                                         \
	    weir_tensor_reshape(w.device, 2, lengths, &r.tensor))              \
	X(weir_tensor_as_strided, EITHER,                                      \
	    weir_tensor_as_strided(w.device,                                   \
		&(struct weir_layout){                                         \
		    .struct_size = sizeof(struct weir_layout),                 \
		    .dtype = WEIR_UINT8 },                                     \
		&r.tensor))                                                    \
	X(weir_tensor_squeeze, EITHER,                                         \
	    weir_tensor_squeeze(w.device, 0, &r.tensor))                       \
	X(weir_tensor_squeeze_all, EITHER,                                     \
	    weir_tensor_squeeze_all(w.device, &r.tensor))                      \
	X(weir_tensor_unsqueeze, EITHER,                                       \
	    weir_tensor_unsqueeze(w.device, 0, &r.tensor))                     \
	X(weir_tensor_view_dtype, EITHER,                                      \
	    weir_tensor_view_dtype(w.device, WEIR_INT32, &r.tensor))           \
	X(weir_tensor_fill, REFUSED,                                           \
	    weir_tensor_fill(w.device, WEIR_FLOAT32, &one, w.stream))          \
	X(weir_tensor_copy, REFUSED,                                           \
	    weir_tensor_copy(w.plain, w.device, w.stream, 0))                  \
	X(weir_tensor_to, EITHER,                                              \
	    weir_tensor_to(                                                    \
		w.plain, WEIR_FLOAT32, NULL, WEIR_COPY_ALWAYS, &r.tensor))     \
	X(weir_tensor_contiguous, EITHER,                                      \
	    weir_tensor_contiguous(w.device, w.stream, &r.tensor))             \
	X(weir_tensor_record, REFUSED, weir_tensor_record(w.device, w.stream)) \
	X(weir_tensor_join, REFUSED, weir_tensor_join(w.device, w.stream))     \
	X(weir_tensor_synchronize, REFUSED, weir_tensor_synchronize(w.device)) \
	X(weir_tensor_dl_device, EITHER,                                       \
	    weir_tensor_dl_device(w.device, &r.dl_device))                     \
	X(weir_tensor_dl_view, EITHER,                                         \
	    weir_tensor_dl_view(w.device, &r.dl_tensor))                       \
	X(weir_tensor_to_dlpack, REFUSED,                                      \
	    weir_tensor_to_dlpack(w.device, w.stream, 0, &r.versioned))        \
	X(weir_tensor_to_dlpack_unversioned, REFUSED,                          \
	    weir_tensor_to_dlpack_unversioned(w.device, w.stream, &r.managed)) \
	X(weir_tensor_from_dlpack, EITHER,                                     \
	    weir_tensor_from_dlpack(w.lent, w.stream, &r.tensor))              \
	X(weir_tensor_from_dlpack_unversioned, EITHER,                         \
	    weir_tensor_from_dlpack_unversioned(NULL, w.stream, &r.tensor))    \
	X(weir_dl_exchange_init, DONE,                                         \
	    (weir_dl_exchange_init(&r.exchange), WEIR_OK))                     \
	X(weir_tensor_array_interface, EITHER,                                 \
	    weir_tensor_array_interface(w.device, &r.array))                   \
	X(weir_tensor_from_array_interface, EITHER,                            \
	    weir_tensor_from_array_interface(                                  \
		&r.array, 0, w.stream, NULL, &r.tensor))                       \
	X(weir_save, DONE,                                                     \
	    weir_save(w.own_file, &(struct weir_named){ "plain", w.plain }, 1, \
		NULL))                                                         \
	X(weir_load, REFUSED, weir_load(w.file, NULL, &r.loaded))              \
	X(weir_loaded_count, EITHER,                                           \
	    ((void)weir_loaded_count(w.loaded), WEIR_OK))                      \
	X(weir_loaded_name, EITHER,                                            \
	    ((void)weir_loaded_name(w.loaded, 0), WEIR_OK))                    \
	X(weir_loaded_tensor, EITHER,                                          \
	    ((void)weir_loaded_tensor(w.loaded, 0), WEIR_OK))                  \
	X(weir_loaded_find, EITHER,                                            \
	    ((void)weir_loaded_find(w.loaded, "device"), WEIR_OK))             \
	X(weir_loaded_metadata, EITHER,                                        \
	    ((void)weir_loaded_metadata(w.loaded, "key"), WEIR_OK))            \
	X(weir_loaded_opaque, EITHER,                                          \
	    ((void)weir_loaded_opaque(w.loaded, 0, NULL, NULL), WEIR_OK))      \
	X(weir_loaded_key, EITHER,                                             \
	    ((void)weir_loaded_key(w.loaded, 0), WEIR_OK))                     \
	X(weir_loaded_drop, DONE, (weir_loaded_drop(w.loaded), WEIR_OK))       \
	X(weir_tensor_destroy, DONE, (weir_tensor_destroy(w.device), WEIR_OK)) \
	X(weir_stream_retire, REFUSED, weir_stream_retire(w.other))            \
	X(weir_stream_destroy, REFUSED, weir_stream_destroy(w.other))          \
	X(weir_event_destroy, DONE, weir_event_destroy(w.event))               \
	X(weir_host_free, DONE, weir_host_free(w.host))                        \
	X(weir_free_async, DONE, weir_free_async(w.block, w.other))            \
	X(weir_free, DONE, weir_free(w.block))

static const struct call {
	const char *name;
	enum outcome outcome;
} calls[] = {
#define CALL_ROW(name, outcome, call) { #name, outcome },
	CALLS(CALL_ROW)
#undef CALL_ROW
};

enum { N_CALLS = sizeof(calls) / sizeof(calls[0]) };

static enum weir_status
make_call(int wanted)
{
	int i = 0;

#define CALL_CASE(name, outcome, call)                                         \
	if (i++ == wanted)                                                     \
		return call;
	CALLS(CALL_CASE)
#undef CALL_CASE
	return WEIR_OK;
}

/* ---- What libweir.so exports --------------------------------------------- */

static bool
is_called(const char *name)
{
	for (int i = 0; i < N_CALLS; i++)
		if (strcmp(calls[i].name, name) == 0)
			return true;
	return false;
}

/* Compare the table with the symbols of a library. Returns their number. */
static size_t
compare_symbols(const char *bytes)
{
	const Elf64_Ehdr *head = (const void *)bytes;
	const Elf64_Shdr *sections = (const void *)(bytes + head->e_shoff);
	size_t n = 0;

	for (unsigned i = 0; i < head->e_shnum; i++) {
		const Elf64_Shdr *s = &sections[i];
		if (s->sh_type != SHT_DYNSYM)
			continue;
		const char *names = bytes + sections[s->sh_link].sh_offset;
		const Elf64_Sym *symbols = (const void *)(bytes + s->sh_offset);
		for (size_t k = 0; k < s->sh_size / sizeof(*symbols); k++) {
			const char *name = names + symbols[k].st_name;
			if (symbols[k].st_shndx == SHN_UNDEF ||
			    strncmp(name, "weir_", 5) != 0)
				continue;
			n++;
			if (!is_called(name))
				FAIL("%s() is not in the table", name);
		}
	}
	return n;
}

TEST(every_exported_call_is_tried_in_a_forked_child)
{
	char *path = test_build("lib/libweir.so");
	int file = open(path, O_RDONLY | O_CLOEXEC);
	struct stat about;

	if (file < 0)
		SKIP("this build has no libweir.so");
	EXPECT_EQ(fstat(file, &about), 0);
	void *bytes =
	    mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	EXPECT(bytes != MAP_FAILED);
	EXPECT_EQ(compare_symbols(bytes), N_CALLS);
	close(file);
	free(path);
}

/* ---- The parent ---------------------------------------------------------- */

static void
open_world(void)
{
	struct weir_tensor_info info = { .struct_size = sizeof(info) };
	struct weir_place plain = { .struct_size = sizeof(plain),
		.memory = WEIR_MEMORY_HOST };
	struct weir_named named = { "device", NULL };

	snprintf(w.file, sizeof(w.file), "/tmp/weir_fork_test.%d", getpid());
	snprintf(w.own_file, sizeof(w.own_file), "/tmp/weir_fork_test.%d.child",
	    getpid());
	w.stream = new_stream();
	w.other = new_stream();
	w.block = take(5000, w.stream);
	w.host = weir_host_malloc(1000);
	EXPECT_NOT_NULL(w.host);
	w.pool = new_pool(0, 0);
	w.routed = new_pool(0, 0);
	take_from(w.pool, 1000, w.stream);
	EXPECT_OK(weir_checkpoint_take(w.pool, &w.checkpoint));
	EXPECT_OK(weir_route_stream(w.routed, new_stream(), &w.route));
	EXPECT_OK(weir_graph_create(WEIR_GRAPH_KEEP, &w.graph));
	EXPECT_OK(weir_graph_capture_begin(
	    w.graph, w.stream, NULL, WEIR_CAPTURE_RELAXED));
	fill(take(1000, w.stream), 1000, 1, w.stream);
	EXPECT_OK(weir_graph_capture_end(w.graph));
	EXPECT_OK(weir_event_create(0, &w.event));
	EXPECT_OK(weir_event_record(w.event, w.stream));
	EXPECT_OK(weir_storage_create(NULL, 1000, &w.storage));
	EXPECT_OK(weir_tensor_empty(WEIR_FLOAT32, 2, lengths, NULL, &w.device));
	EXPECT_OK(
	    weir_tensor_empty(WEIR_FLOAT32, 2, lengths, &plain, &w.plain));
	EXPECT_OK(weir_tensor_info(w.plain, &info));
	memset(info.data, 0, info.bytes);
	EXPECT_OK(weir_tensor_to_dlpack(w.device, WEIR_STREAM_ANY, 0, &w.lent));
	named.tensor = w.device;
	EXPECT_OK(weir_save(w.file, &named, 1, NULL));
	EXPECT_OK(weir_load(w.file, NULL, &w.loaded));
	/* Where memory cannot be shared the calls are refused before that. */
	if (weir_ipc_export(take(9000, w.stream), w.stream, &w.shared) !=
	    WEIR_OK)
		w.shared = NULL;
}

static atomic_bool stop;

static void
try_pools(weir_stream stream)
{
	struct weir_pool *pool = new_pool(0, 0);
	void *ptr = take_from(pool, 5000, stream);
	struct weir_checkpoint *checkpoint;
	struct weir_route *route;

	EXPECT_OK(weir_checkpoint_take(pool, &checkpoint));
	weir_checkpoint_drop(checkpoint);
	EXPECT_OK(weir_route_stream(pool, stream, &route));
	weir_route_end(route);
	EXPECT_OK(weir_route_thread(pool, &route));
	weir_route_end(route);
	give(ptr);
	weir_pool_suspend(pool, true, NULL);
	weir_pool_resume(pool);
	weir_pool_release(pool);
}

static void
try_graph(weir_stream stream)
{
	struct weir_graph *graph;

	EXPECT_OK(weir_graph_create(0, &graph));
	EXPECT_OK(weir_graph_capture_begin(
	    graph, stream, NULL, WEIR_CAPTURE_RELAXED));
	void *ptr = take(1000, stream);
	fill(ptr, 1000, 1, stream);
	give(ptr);
	EXPECT_OK(weir_graph_capture_end(graph));
	EXPECT_OK(weir_graph_replay(graph, stream));
	weir_graph_destroy(graph);
}

static void
try_sharing(weir_stream stream)
{
	struct weir_ipc_export *shared;
	void *ptr = take(2000, stream);

	if (weir_ipc_export(ptr, stream, &shared) == WEIR_OK)
		weir_ipc_release(shared);
	else
		give(ptr);
}

static void
try_tensors(weir_stream stream)
{
	struct weir_tensor *tensor;

	EXPECT_OK(weir_tensor_empty(WEIR_FLOAT32, 2, lengths, NULL, &tensor));
	EXPECT_OK(weir_tensor_record(tensor, stream));
	EXPECT_OK(weir_tensor_join(w.device, stream));
	weir_tensor_destroy(tensor);
}

static void
try_tracing(unsigned number)
{
	char text[TEXT];

	snprintf(text, sizeof(text), "text %u", number);
	weir_metadata_set(text);
	weir_annotate(text, WEIR_STAGE_START, 0);
	weir_trace_callback_add(
	    WEIR_TRACE_MEMORY_ALLOCATION, see_trace, text + number % TEXT);
	weir_trace_callback_remove(
	    WEIR_TRACE_MEMORY_ALLOCATION, see_trace, text + number % TEXT);
	weir_history_start(NULL);
	weir_compile_context_push(text);
	weir_compile_context_pop();
	if (number % 4 == 0)
		weir_history_stop();
	weir_log_set(WEIR_LOG_ERROR, NULL, NULL);
}

static void
try_rest(weir_stream stream)
{
	struct weir_event *event;
	weir_stream made;
	void *host = weir_host_malloc(70000);

	weir_host_record(host, stream);
	weir_host_free(host);
	weir_host_trim(0, 0, NULL);
	EXPECT_OK(weir_event_create(0, &event));
	EXPECT_OK(weir_event_record(event, stream));
	EXPECT_OK(weir_event_destroy(event));
	EXPECT_OK(weir_stream_create(0, 0, &made));
	EXPECT_OK(weir_stream_destroy(made));
	weir_options_set("prefer:speed");
	weir_limit_set(0, SIZE_MAX);
	weir_trim(0, 0, NULL);
	stats();
}

/* Be inside of weir, with every lock now and then. */
static void *
keep_busy(void *argument)
{
	unsigned number = (unsigned)(uintptr_t)argument;
	weir_stream stream = new_stream();

	for (; !atomic_load(&stop); number++) {
		void *ptr = take(1 + number * 7919 % (3 * MIB), stream);
		record(ptr, w.stream);
		switch (number % 8) {
		case 0:
			try_pools(stream);
			break;
		case 1:
			try_graph(stream);
			break;
		case 2:
			try_sharing(stream);
			break;
		case 3:
			try_tensors(stream);
			break;
		case 4:
			try_rest(stream);
			break;
		default:
			try_tracing(number);
			break;
		}
		give(ptr);
	}
	return NULL;
}

/* ---- The child ----------------------------------------------------------- */

/* The call that the child is in; shared with it. */
static atomic_int *now;

/* 0: as the table says. */
static int
judge(const struct call *call, enum weir_status status)
{
	if (call->outcome == REFUSED &&
	    (status != WEIR_EFORK || weir_last_status() != WEIR_EFORK ||
		strstr(weir_last_error(), "forked child") == NULL))
		return 1;
	return call->outcome == DONE && status != WEIR_OK ? 1 : 0;
}

static void
prepare_results(void)
{
	r.ctl.struct_size = sizeof(r.ctl);
	r.stats.struct_size = sizeof(r.stats);
	r.block.struct_size = sizeof(r.block);
	r.device.struct_size = sizeof(r.device);
	r.telemetry.struct_size = sizeof(r.telemetry);
	r.history.struct_size = sizeof(r.history);
	r.storage_info.struct_size = sizeof(r.storage_info);
	r.tensor_info.struct_size = sizeof(r.tensor_info);
	r.ipc_info.struct_size = sizeof(r.ipc_info);
	r.place.struct_size = sizeof(r.place);
	r.array.struct_size = sizeof(r.array);
	r.restored.struct_size = sizeof(r.restored);
}

/* Drop what a call that needs no GPU has made. */
static void
drop_results(void)
{
	weir_tensor_destroy(r.tensor);
	weir_loaded_drop(r.loaded);
	r.tensor = NULL;
	r.loaded = NULL;
}

static _Noreturn void
run_child(bool by_exit)
{
	alarm(HANG_S);
	prepare_results();
	for (int i = 0; i < N_CALLS; i++) {
		atomic_store(now, i);
		enum weir_status status = make_call(i);
		if (judge(&calls[i], status) != 0) {
			fprintf(stderr, "%s() gave %s: %s\n", calls[i].name,
			    weir_status_name(status), weir_last_error());
			_exit(1);
		}
		drop_results();
	}
	atomic_store(now, N_CALLS);
	/* A search for leaks at exit would find memory that only the stacks of
	 * the parent's other threads refer to. */
	if (by_exit && !test_is_watched())
		exit(0);
	_exit(0);
}

static void
expect_return(bool by_exit)
{
	pid_t child = fork();
	int status;

	EXPECT_GE(child, 0);
	if (child == 0)
		run_child(by_exit);
	EXPECT_EQ(waitpid(child, &status, 0), child);
	int at = atomic_load(now);
	const char *name = at < N_CALLS ? calls[at].name : "exit";
	if (WIFSIGNALED(status))
		FAIL("%s() in a forked child: %s", name,
		    WTERMSIG(status) == SIGALRM ? "it hangs" :
						  strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status) != 0)
		FAIL("%s() in a forked child: not what the table says", name);
}

static void
begin(void)
{
	now = mmap(NULL, sizeof(*now), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	EXPECT(now != MAP_FAILED);
	open_world();
	/* Traced calls take more locks. */
	EXPECT_OK(weir_history_start(NULL));
	EXPECT_OK(weir_trace_callback_add(
	    WEIR_TRACE_MEMORY_ALLOCATION, see_trace, NULL));
	EXPECT_OK(weir_memory_observer_add(see_memory, NULL));
	EXPECT_OK(weir_oom_observer_add(see_oom, NULL));
}

static void
end(void)
{
	unlink(w.file);
	unlink(w.own_file);
	EXPECT_EQ(weir_check(NULL, 0), 0);
}

TEST(every_call_in_a_forked_child_is_refused_or_needs_no_gpu)
{
	begin();
	expect_return(false);
	expect_return(true);
	end();
}

TEST_TIMEOUT(no_call_hangs_in_a_forked_child_of_busy_threads, 600)
{
	enum { THREADS = 3 };
	pthread_t threads[THREADS];

	begin();
	for (uintptr_t i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_create(
			      &threads[i], NULL, keep_busy, (void *)(i * 5)),
		    0);
	for (uint64_t i = 0; i < test_effort(60); i++)
		expect_return(i % 4 == 0);
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_join(threads[i], NULL), 0);
	end();
}
