/*
 * Mangled C++ names that expand to very long texts. Parts of a name may refer
 * to earlier parts, so 250 characters may stand for gigabytes of text, and
 * __cxa_demangle() writes all of it.
 */
#ifndef STACKS_MANGLED_H
#define STACKS_MANGLED_H

#include <stdbool.h>

/*
 * Report whether a mangled name is short enough to be demangled: it has at most
 * 1,024 characters, as many as libstdc++ accepts, and its references to earlier
 * parts expand to at most 256 Mi characters. Note [Expanded names] has the
 * bound, and what it omits.
 */
bool mangled_name_is_bounded(const char *name);

#endif
