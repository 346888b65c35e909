/*
 * The tests of <weir/weir.hpp>: written in C++ (cases.cpp), compiled by each
 * available C++ compiler, and run by cpp_test.c. Each returns NULL, or the text
 * of a fault.
 */
#ifndef WEIR_TESTS_CPP_CASES_H
#define WEIR_TESTS_CPP_CASES_H

/* X(name) */
#define CPP_CASES(X)                                                           \
	X(an_array_is_served_and_freed)                                        \
	X(a_failure_throws_with_the_text_of_weir)                              \
	X(want_of_memory_is_a_bad_alloc)                                       \
	X(a_size_that_is_no_size_t_is_refused)                                 \
	X(handles_move_and_end)                                                \
	X(streams_wait_for_streams_and_events)                                 \
	X(a_pool_is_apart)                                                     \
	X(a_graph_is_captured_and_replayed)                                    \
	X(a_capture_that_throws_leaves_nothing)                                \
	X(page_locked_memory_serves_pmr_containers)                            \
	X(page_locked_memory_is_aligned)                                       \
	X(a_resource_serves_with_and_without_streams)                          \
	X(a_resource_accepts_objects_made_of_a_stream)                         \
	X(an_allocator_serves_a_container)                                     \
	X(an_allocator_gives_pointers_of_a_class)                              \
	X(memory_is_freed_from_another_stream)                                 \
	X(rmm_is_served_in_the_order_of_its_streams)                           \
	X(resources_of_rmm_are_equal_by_device)                                \
	X(rmm_gets_failures_as_its_exceptions)                                 \
	X(tensorrt_is_served_with_and_without_streams)                         \
	X(tensorrt_gets_null_for_failures)                                     \
	X(onnxruntime_is_served_by_the_addresses_of_its_options)

#ifdef __cplusplus
extern "C" {
#endif

#define CPP_DECLARE(name) const char *CPP_PREFIX(name)(void);

/* The cases compiled by the compiler of the build, and by the other one. */
#define CPP_PREFIX(name) cpp_first_##name
CPP_CASES(CPP_DECLARE)
#undef CPP_PREFIX
#define CPP_PREFIX(name) cpp_second_##name
CPP_CASES(CPP_DECLARE)
#undef CPP_PREFIX
#undef CPP_DECLARE

#ifdef __cplusplus
}
#endif

#endif
