/*
 * See cuda_stream_view.hpp.
 */
#ifndef RMM_DOUBLE_ERROR_HPP
#define RMM_DOUBLE_ERROR_HPP

#include <new>
#include <string>

namespace rmm
{

class bad_alloc : public std::bad_alloc
{
public:
	bad_alloc(const std::string &text) : text_(text)
	{
	}

	const char *
	what() const noexcept override
	{
		return text_.c_str();
	}

private:
	std::string text_;
};

class out_of_memory : public bad_alloc
{
public:
	using bad_alloc::bad_alloc;
};

} // namespace rmm

#endif
