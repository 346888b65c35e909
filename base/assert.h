/*
 * Preconditions. Debug and sanitizer builds check them, and end the program
 * with the condition that is not met: that is a fault of weir and not of its
 * caller, who gets a status. Release builds do not evaluate them.
 */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

/* The condition has no side effects. The analyser relies on it. */
#if defined(WEIR_DEBUG) || defined(__clang_analyzer__)
#define ASSERT(condition)                                                      \
	((condition) ? (void)0 : assert_failed(#condition, __FILE__, __LINE__))
#else
#define ASSERT(condition) ((void)sizeof((condition) ? 1 : 0))
#endif

/* Does a check of debug builds run? For tests that break a precondition. */
#if defined(WEIR_DEBUG)
#define ASSERT_CHECKED 1
#else
#define ASSERT_CHECKED 0
#endif

void assert_failed(const char *condition, const char *file, int line)
    __attribute__((noreturn, cold));

#endif
