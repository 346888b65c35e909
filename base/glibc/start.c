/*
 * The start of a program that also runs with glibc before 2.34. There a program
 * called its constructors by itself; the start file of a newer glibc leaves
 * that to the C library, under a newer version of __libc_start_main(). Linked
 * into the weir command.
 */
#include <stddef.h>

#if defined(__x86_64__)
__asm__(".symver start_main_old, __libc_start_main@GLIBC_2.2.5");
#else
__asm__(".symver start_main_old, __libc_start_main@GLIBC_2.17");
#endif

typedef int main_function(int, char **, char **);
typedef void part_function(int, char **, char **);

/* The linker's names for the tables of constructors. */
extern part_function *start_first[] __asm__("__preinit_array_start")
    __attribute__((visibility("hidden")));
extern part_function *end_first[] __asm__("__preinit_array_end")
    __attribute__((visibility("hidden")));
extern part_function *start_rest[] __asm__("__init_array_start")
    __attribute__((visibility("hidden")));
extern part_function *end_rest[] __asm__("__init_array_end")
    __attribute__((visibility("hidden")));

int start_main_old(main_function *main, int argc, char **argv,
    part_function *begin, void (*end)(void), void (*unload)(void),
    void *stack_end);
int start_main(main_function *main, int argc, char **argv, part_function *begin,
    void (*end)(void), void (*unload)(void),
    void *stack_end) __asm__("__libc_start_main");

static void
call_constructors(int argc, char **argv, char **environment)
{
	for (part_function **each = start_first; each != end_first; each++)
		(*each)(argc, argv, environment);
	for (part_function **each = start_rest; each != end_rest; each++)
		(*each)(argc, argv, environment);
}

/* The start file calls this with neither `begin` nor `end`. */
int
start_main(main_function *main, int argc, char **argv, part_function *begin,
    void (*end)(void), void (*unload)(void), void *stack_end)
{
	(void)begin;
	return start_main_old(
	    main, argc, argv, call_constructors, end, unload, stack_end);
}
