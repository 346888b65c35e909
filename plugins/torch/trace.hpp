/*
 * Snapshots, the history, and its trackers.
 */
#ifndef PLUGINS_TORCH_TRACE_HPP
#define PLUGINS_TORCH_TRACE_HPP

#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/torch/pools.hpp"

namespace weir_torch
{
namespace
{

/* ---- Snapshots --------------------------------------------------------- */

struct Snapshot {
	caching::SnapshotInfo info{};
};

void
add_segment(const weir_segment_view *from, void *closure)
{
	auto *snapshot = static_cast<Snapshot *>(closure);
	caching::SegmentInfo to;

	to.device = static_cast<DeviceIndex>(from->device);
	to.address = reinterpret_cast<size_t>(from->address);
	to.total_size = from->size;
	to.requested_size = from->requested_bytes;
	to.allocated_size = from->allocated_bytes;
	to.active_size = from->active_bytes;
	to.stream = reinterpret_cast<decltype(to.stream)>(from->stream);
	to.is_large = !from->small;
	to.is_expandable = from->expandable;
	/* NCCL registers the segments of a pool in this order on all ranks. */
	set_registration_counter(to, from->number, 0);
	to.owner_private_pool_id =
	    id_of(weir_torch_pool_name(from->device, from->pool_id));
	to.context_when_allocated =
	    context_of(weir_torch_context_of_segment(to.address));
	to.blocks.reserve(from->block_count);
	for (size_t i = 0; i < from->block_count; i++) {
		const weir_block_view &b = from->blocks[i];
		caching::BlockInfo block;
		block.size = b.size;
		block.requested_size = b.requested_bytes;
		block.allocated = b.state == WEIR_BLOCK_ALLOCATED;
		block.active = b.state != WEIR_BLOCK_INACTIVE;
		if (block.active)
			block.context_when_allocated =
			    context_of(weir_torch_context_of_block(
				reinterpret_cast<uint64_t>(b.address)));
		to.blocks.push_back(std::move(block));
	}
	snapshot->info.segments.push_back(std::move(to));
}

using Action = caching::TraceEntry::Action;

/* PyTorch's names of weir's actions, indexed by enum weir_action. */
constexpr Action actions[] = { Action::ALLOC, Action::FREE_REQUESTED,
	Action::FREE_COMPLETED, Action::SEGMENT_ALLOC, Action::SEGMENT_FREE,
	Action::SEGMENT_MAP, Action::SEGMENT_UNMAP, Action::OOM,
	Action::SNAPSHOT };
static_assert(sizeof(actions) / sizeof(*actions) == WEIR_ACTIONS &&
	WEIR_ACTION_SNAPSHOT == WEIR_ACTIONS - 1,
    "an action has no name");

/* 2.14 and later; earlier versions cannot annotate a block. */
template <typename Entry>
auto
annotate_action(int) -> decltype(Entry::ANNOTATE)
{
	return Entry::ANNOTATE;
}
template <typename Entry>
typename Entry::Action
annotate_action(long)
{
	return Entry::SNAPSHOT;
}

Action
action_of(const weir_torch_event *event)
{
	return event->action == WEIR_TORCH_ANNOTATE ?
	    annotate_action<caching::TraceEntry>(0) :
	    actions[event->action];
}

caching::TraceEntry
entry_of(const weir_torch_event *event)
{
	Context context = event->context != nullptr ?
	    static_cast<Held *>(event->context)->context :
	    nullptr;

	return make_entry<caching::TraceEntry>(action_of(event),
	    { static_cast<DeviceIndex>(event->device), event->address,
		event->size, cuda_of(event->stream), id_of(event->pool),
		std::move(context), event->compile_context,
		event->user_metadata });
}

void
add_event(const weir_torch_event *event, void *closure)
{
	auto *snapshot = static_cast<Snapshot *>(closure);
	auto &traces = snapshot->info.device_traces;
	caching::TraceEntry entry = entry_of(event);

	entry.time_.t_ = static_cast<time_t>(event->time_ns / 1000);
	if (static_cast<size_t>(event->device) < traces.size())
		traces[event->device].push_back(std::move(entry));
}

/* Versions whose snapshots have no annotations leave them out. */
template <typename Info>
auto
push_annotation(Info &info, const Note &note, int)
    -> decltype(info.external_annotations, void())
{
	using All = decltype(info.external_annotations);
	typename All::value_type annotation(note.device, {});

	annotation.time_.t_ = static_cast<time_t>(note.time_ns / 1000);
	for (const auto &text : note.texts)
		annotation.recordUserMetadata(text.first, text.second);
	info.external_annotations.push_back(std::move(annotation));
}
template <typename Info>
void
push_annotation(Info &, const Note &, long)
{
}

void
add_annotation(void *held, void *closure)
{
	auto *snapshot = static_cast<Snapshot *>(closure);

	push_annotation(snapshot->info, static_cast<Held *>(held)->note, 0);
}

/* The settings that PyTorch itself was given. */
template <typename Config>
void
fill_settings(caching::AllocatorConfigInfo &to)
{
	set_garbage_collection_threshold(
	    to, setting_garbage_collection_threshold<Config>(0.0, 0), 0);
	set_max_split_size(to, setting_max_split_size<Config>(SIZE_MAX, 0), 0);
	set_pinned_num_register_threads(
	    to, setting_pinned_num_register_threads<Config>(size_t(1), 0), 0);
	set_expandable_segments(
	    to, setting_expandable_segments<Config>(false, 0), 0);
	bool release = setting_release_lock_on_cudamalloc<Config>(false, 0);
	set_release_lock_on_malloc(to, release, 0);
	set_release_lock_on_cudamalloc(to, release, 0);
	bool registers =
	    setting_pinned_use_cuda_host_register<Config>(false, 0);
	set_pinned_use_host_register(to, registers, 0);
	set_pinned_use_cuda_host_register(to, registers, 0);
	set_graph_capture_record_stream_reuse(
	    to, setting_graph_capture_record_stream_reuse<Config>(false, 0), 0);
	set_last_allocator_settings(
	    to, setting_last_allocator_settings<Config>(std::string(), 0), 0);
	set_roundup_power2_divisions(to,
	    setting_roundup_power2_divisions<Config>(
		std::vector<size_t>(16, 0), 0),
	    0);
}

/* The settings of all kinds of devices, 2.13 and later. */
template <typename Config>
void
fill_shared_settings(caching::AllocatorConfigInfo &to)
{
	if constexpr (is_defined<Config>::value) {
		set_max_round_threshold(to,
		    setting_pinned_max_round_threshold<Config>(SIZE_MAX, 0), 0);
		set_max_cached_size(
		    to, setting_pinned_max_cached_size<Config>(SIZE_MAX, 0), 0);
	}
}

/* ---- Trackers ---------------------------------------------------------- */

/* The function is called from C, with locks of weir held: no exception may
 * leave it. */
void
call_tracker(const weir_torch_event *event, void *user)
{
	try {
		caching::TraceEntry entry = entry_of(event);
		(*static_cast<caching::AllocatorTraceTracker *>(user))(entry);
	} catch (const std::exception &e) {
		std::fprintf(
		    stderr, "weir: a tracker of memory events: %s\n", e.what());
	}
}

/* ---- The allocator ----------------------------------------------------- */

class Traces : public Pools
{
public:
	caching::SnapshotInfo
	snapshot(PoolId id, bool with_traces)
	{
		Snapshot snapshot;

		snapshot.info.device_traces.resize(
		    static_cast<size_t>(devices_.load()));
		if (with_traces)
			weir_torch_history_each(add_event, &snapshot);
		weir_torch_annotations_each(add_annotation, &snapshot);
		expect(weir_torch_visit(id_of(id), add_segment, &snapshot),
		    "snapshot");
		fill_settings<caching::CUDAAllocatorConfig>(
		    snapshot.info.config_metadata);
		fill_shared_settings<
		    c10::CachingAllocator::AcceleratorAllocatorConfig>(
		    snapshot.info.config_metadata);
		return std::move(snapshot.info);
	}

	caching::SnapshotInfo
	snapshot(PoolId id)
	{
		return snapshot(id, true);
	}

	caching::SnapshotInfo
	snapshot()
	{
		return snapshot(PoolId(0, 0), true);
	}

	bool
	isHistoryEnabled()
	{
		return weir_torch_history_on();
	}

	void
	recordHistory(bool enabled, caching::CreateContextFn gather,
	    size_t entries, caching::RecordContext when, bool clear,
	    const std::vector<std::string> &skip)
	{
		weir_torch_history history{};

		TORCH_CHECK(
		    when == caching::RecordContext::NEVER || gather != nullptr,
		    "there is no recorder of contexts");
		history.on = enabled;
		history.level = static_cast<int>(when);
		history.max_entries = entries;
		history.clear = clear;
		for (const std::string &name : skip) {
			int action = weir_torch_action(name.c_str());
			if (action < 0)
				fail("Unknown TraceEntry action: %s",
				    name.c_str());
			history.skip |= 1u << action;
		}
		recorder.store(gather);
		expect(weir_torch_history_set(&history, &held_counts),
		    "recordHistory");
	}

	void
	recordHistory(bool enabled, caching::CreateContextFn gather,
	    size_t entries, caching::RecordContext when, bool clear)
	{
		recordHistory(enabled, gather, entries, when, clear, {});
	}

	void
	recordHistory(bool enabled, caching::CreateContextFn gather,
	    size_t entries, caching::RecordContext when)
	{
		recordHistory(enabled, gather, entries, when, false, {});
	}

	void
	recordAnnotation(
	    const std::vector<std::pair<std::string, std::string>> &texts)
	{
		if (!weir_torch_history_on())
			return;
		timespec now{};
		clock_gettime(CLOCK_REALTIME, &now);
		auto *held = new Held;
		held->note = { current_device(),
			static_cast<uint64_t>(now.tv_sec) * 1000000000u +
			    static_cast<uint64_t>(now.tv_nsec),
			texts };
		weir_torch_annotate(held);
		held_release(held);
	}

	void
	pushCompileContext(std::string &name)
	{
		expect(weir_torch_compile_push(name.c_str()),
		    "pushCompileContext");
	}

	void
	popCompileContext()
	{
		weir_torch_compile_pop();
	}

	void
	setUserMetadata(const std::string &text)
	{
		expect(
		    weir_torch_metadata_set(text.c_str()), "setUserMetadata");
	}

	std::string
	getUserMetadata()
	{
		return weir_torch_metadata_get();
	}

	/* 2.14 and later, which warn if the two functions below do nothing. */
	bool
	supportsUserMetadata()
	{
		return true;
	}

	void
	annotateMemory(const void *ptr, const std::string &text)
	{
		expect(weir_torch_block_annotate(ptr, text.c_str()),
		    "annotateMemory");
	}

	Context
	getContextForPointer(const void *ptr)
	{
		return context_of(weir_torch_context_of_block(
		    reinterpret_cast<uint64_t>(ptr)));
	}

	void
	attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer)
	{
		std::lock_guard<std::mutex> guard(observers_lock);

		observers.push_back(std::move(observer));
	}

	/* weir never refuses a request before it has tried. */
	void attachOomRejectionObserver(typename rejection_observer<Base>::type)
	{
	}

	void
	attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker)
	{
		auto owned = std::make_unique<caching::AllocatorTraceTracker>(
		    std::move(tracker));

		expect(weir_torch_tracker_add(call_tracker, owned.get()),
		    "attachAllocatorTraceTracker");
		(void)owned.release(); /* trackers are never detached */
	}
};

} // namespace
} // namespace weir_torch

#endif
