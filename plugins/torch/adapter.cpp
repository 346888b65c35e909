/*
 * PyTorch's CUDA allocator, by weir: c10::cuda::CUDACachingAllocator's
 * interface, and that of page-locked memory, as one class each. Nothing is
 * decided here; types are converted, and failures become exceptions.
 *
 * weir.torch compiles this file against the PyTorch at hand, with all parts at
 * once: PyTorch's headers take most of the time. What differs between versions
 * is in compat.h.
 *
 *	common.hpp      conversions, failures, devices and streams
 *	context.hpp     PyTorch's contexts of events and blocks
 *	shortage.hpp    other observers, and the exception of a shortage
 *	blocks.hpp      allocating and freeing
 *	statistics.hpp  limits, and what there is
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

/* It lives as long as the process: blocks are freed to the end. */
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

/* The steps that weir_torch_install() has done, as bits. */
enum Done { DEVICE = 1, HOST = 2, SETTINGS = 4 };

} // namespace
} // namespace weir_torch

/*
 * Put weir in the place of PyTorch's allocators, once, before CUDA is
 * initialised. The text says why not.
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

/* Settings have changed by a way that PyTorch does not tell of; 0, or the text
 * says what weir does not take. */
extern "C" __attribute__((visibility("default"))) int
weir_torch_settings(const char *settings, char *text, size_t size)
{
	if (weir_torch_conf_follow(settings) == WEIR_OK)
		return 0;
	std::snprintf(text, size, "%s", weir_last_error());
	return -1;
}
