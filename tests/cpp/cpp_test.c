/*
 * Runs the tests of <weir/weir.hpp> in tests/cpp/cases.cpp, compiled by each
 * C++ compiler.
 */
#include <stddef.h>

#include "tests/cpp/cases.h"

#include "tests/support/test.h"

static void
run(const char *(*test)(void))
{
	const char *what = test();

	if (what != NULL)
		FAIL("%s", what);
}

#define CPP_FIRST(name)                                                        \
	TEST(name)                                                             \
	{                                                                      \
		run(cpp_first_##name);                                         \
	}
CPP_CASES(CPP_FIRST)

#if CPP_COMPILERS > 1
#define CPP_SECOND(name)                                                       \
	TEST(name##_with_the_other_compiler)                                   \
	{                                                                      \
		run(cpp_second_##name);                                        \
	}
CPP_CASES(CPP_SECOND)
#endif
