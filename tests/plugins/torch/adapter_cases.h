/*
 * X(name): the cases of the adapter for PyTorch, each a function in C++ that
 * returns NULL or the text of a fault. adapter_test.c makes a test of each.
 */
#ifndef TESTS_PLUGINS_TORCH_ADAPTER_CASES_H
#define TESTS_PLUGINS_TORCH_ADAPTER_CASES_H

#define ADAPTER_CASES(X)                                                       \
	X(it_is_installed_once_and_not_too_late)                               \
	X(with_one_device_that_is_the_current_one)                             \
	X(a_data_pointer_is_freed_by_weir)                                     \
	X(an_empty_request_has_no_memory)                                      \
	X(raw_pointers_are_freed_and_wrong_ones_are_errors)                    \
	X(a_shortage_is_an_exception_in_pytorchs_words)                        \
	X(holders_are_asked_before_a_shortage)                                 \
	X(statistics_are_those_of_weir)                                        \
	X(limits_are_fractions)                                                \
	X(a_recorded_stream_delays_the_block)                                  \
	X(a_recorded_default_stream_is_of_its_device)                          \
	X(a_recorded_legacy_stream_is_of_its_device)                           \
	X(a_recorded_per_thread_stream_is_of_its_device)                       \
	X(many_streams_have_their_own_handles)                                 \
	X(a_pool_is_counted_and_routed_to)                                     \
	X(a_pool_is_never_released_with_an_exception)                          \
	X(a_pool_has_an_allocator_of_its_own)                                  \
	X(a_pool_is_restored)                                                  \
	X(contexts_are_kept_by_level)                                          \
	X(a_snapshot_has_segments_traces_and_settings)                         \
	X(actions_are_skipped_and_wrong_ones_refused)                          \
	X(annotations_are_kept)                                                \
	X(a_tracker_sees_every_event)                                          \
	X(a_tracker_that_throws_is_survived)                                   \
	X(segments_of_a_pool_are_numbered_as_they_were_made)                   \
	X(allocations_are_traced_and_profiled)                                 \
	X(the_cache_can_be_turned_off)                                         \
	X(settings_reach_weir)                                                 \
	X(copies_go_between_devices)                                           \
	X(shared_memory_is_opened_once_and_again)                              \
	X(wrong_handles_leave_nothing)                                         \
	X(host_memory_is_weirs)                                                \
	X(host_memory_of_a_graph_stays)

#ifdef __cplusplus
extern "C" {
#endif
#define ADAPTER_CASE(name) const char *name(void);
ADAPTER_CASES(ADAPTER_CASE)
#undef ADAPTER_CASE
#ifdef __cplusplus
}
#endif

#endif
