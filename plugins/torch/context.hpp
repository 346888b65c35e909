/*
 * PyTorch's contexts, which the history stores for each event and block.
 */
#ifndef PLUGINS_TORCH_CONTEXT_HPP
#define PLUGINS_TORCH_CONTEXT_HPP

#include <atomic>
#include <utility>
#include <vector>

#include "plugins/torch/common.hpp"

namespace weir_torch
{
namespace
{

struct Note {
	DeviceIndex device = 0;
	uint64_t time_ns = 0;
	std::vector<std::pair<std::string, std::string>> texts;
};

/* A counted object that the history refers to: a context or an annotation. */
struct Held {
	std::atomic<int> refs{ 1 };
	Context context;
	Note note;
};

void
held_acquire(void *held)
{
	static_cast<Held *>(held)->refs.fetch_add(1);
}

void
held_release(void *held)
{
	if (static_cast<Held *>(held)->refs.fetch_sub(1) == 1)
		delete static_cast<Held *>(held);
}

constexpr weir_torch_contexts held_counts = { held_acquire, held_release };

/* Take the context out of an acquired object, and release the object. */
Context
context_of(void *held)
{
	if (held == nullptr)
		return nullptr;
	Context context = static_cast<Held *>(held)->context;
	held_release(held);
	return context;
}

std::atomic<caching::CreateContextFn> recorder{ nullptr };

inline bool
watched()
{
	return __atomic_load_n(&weir_torch_watched, __ATOMIC_ACQUIRE) != 0;
}

/* The context of the current call, if one is wanted. It is made before weir is
 * called, with no lock held. */
class Call
{
public:
	explicit Call(caching::RecordContext from)
	{
		caching::CreateContextFn gather = recorder.load();
		if (!watched())
			return;
		entered_ = true;
		if (gather != nullptr &&
		    weir_torch_history_wants(static_cast<int>(from))) {
			held_ = new Held;
			held_->context = gather();
		}
		weir_torch_history_enter(held_);
	}
	~Call()
	{
		if (entered_)
			weir_torch_history_enter(nullptr);
		if (held_ != nullptr)
			held_release(held_);
	}
	Call(const Call &) = delete;
	Call &operator=(const Call &) = delete;

private:
	Held *held_ = nullptr;
	bool entered_ = false;
};

} // namespace
} // namespace weir_torch

#endif
