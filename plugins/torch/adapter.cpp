/*
 * PyTorch's CUDA allocator, implemented by weir: the interfaces of
 * c10::cuda::CUDACachingAllocator and of page-locked memory, each as one class.
 * This code makes no decisions: it converts types, and turns failures into
 * exceptions.
 *
 * weir.torch compiles this file against the installed PyTorch, with all parts
 * in one unit, because PyTorch's headers take most of the time. The differences
 * between versions are in compat.h.
 *
 *	common.hpp      conversions, failures, devices and streams
 *	context.hpp     PyTorch's contexts of events and blocks
 *	shortage.hpp    other observers, and the exception for out of memory
 *	blocks.hpp      allocating and freeing
 *	statistics.hpp  limits and statistics
 *	pools.hpp       private pools and their checkpoints
 *	trace.hpp       snapshots and the history
 *	sharing.hpp     other devices and other processes
 *	host.hpp        page-locked memory
 *
 * The allocator's class is made of the parts from blocks.hpp to sharing.hpp,
 * each of which derives from the one before.
 */
#include <cstdio>
#include <string>

#include "plugins/torch/host.hpp"
#include "plugins/torch/sharing.hpp"

namespace weir_torch
{
namespace
{

/* All parts together. */
class Allocator final : public Sharing
{
};

/* It lives as long as the process, because blocks are freed up to the end. */
Allocator &
the_allocator()
{
	static auto *allocator = new Allocator;

	return *allocator;
}

/* ---- Settings ---------------------------------------------------------- */

/* PyTorch's settings as one text. */
template <typename Config>
std::string
settings_text()
{
	if constexpr (is_defined<Config>::value)
		return setting_last_allocator_settings<Config>(
		    std::string(), 0);
	else
		return std::string();
}

void
follow_settings(const std::string &text)
{
	char words[TEXT];
	const char *all = words;

	if (weir_torch_conf_follow(text.c_str()) == WEIR_OK)
		return;
	std::snprintf(words, sizeof(words),
	    "weir does not take these settings: %s", weir_last_error());
	TORCH_WARN(all);
}

template <typename Config>
bool
install_hook()
{
	if constexpr (is_defined<Config>::value)
		return hook_settings<Config>(follow_settings, 0);
	else
		return false;
}

void
install()
{
	Allocator &mine = the_allocator();

	caching::allocator.store(&mine);
	c10::SetAllocator(c10::kCUDA, &mine, 0);
}

/* The steps that weir_torch_install() has completed, as bits. */
enum Done { DEVICE = 1, HOST = 2, SETTINGS = 4 };

} // namespace
} // namespace weir_torch

/*
 * Replace PyTorch's allocators by weir, once, before CUDA is initialised. On
 * failure the text gives the reason.
 *
 * Returns bits of Done; 0: nothing has changed.
 */
extern "C" __attribute__((visibility("default"))) int
weir_torch_install(bool host, char *text, size_t size)
{
	using namespace weir_torch;
	int done = 0;

	text[0] = '\0';
	try {
		Base *before = caching::allocator.load();
		if (before == &the_allocator())
			return DEVICE;
		if (weir_torch_abi() != WEIR_TORCH_ABI) {
			std::snprintf(text, size,
			    "the adapter was built for another weir");
			return 0;
		}
		if (before != nullptr && before->initialized()) {
			std::snprintf(
			    text, size, "CUDA is already initialised");
			return 0;
		}
		expect(
		    weir_torch_conf_follow(
			settings_text<caching::CUDAAllocatorConfig>().c_str()),
		    "settings");
		install();
		done = DEVICE;
		if (host && install_host<at::HostAllocator>())
			done |= HOST;
		if (install_hook<
			c10::CachingAllocator::AcceleratorAllocatorConfig>())
			done |= SETTINGS;
	} catch (const std::exception &e) {
		std::snprintf(text, size, "%s", e.what());
	}
	return done;
}

/* Apply settings that have changed in a way that PyTorch does not report.
 * Returns 0, or the text names a setting that weir refuses. */
extern "C" __attribute__((visibility("default"))) int
weir_torch_settings(const char *settings, char *text, size_t size)
{
	if (weir_torch_conf_follow(settings) == WEIR_OK)
		return 0;
	std::snprintf(text, size, "%s", weir_last_error());
	return -1;
}
