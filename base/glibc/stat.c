/*
 * stat() and its kin, which glibc before 2.33 has under other names only. They
 * are linked, hidden, into each library and program, so that the static
 * libraries in these find them as well.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A 64-bit kernel's structure is the C library's. */
_Static_assert(sizeof(void *) == 8, "weir needs a 64-bit system");

/* The header's names of parameters are reserved ones. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
int
stat(const char *restrict path, struct stat *restrict about)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, about, 0);
}

int
lstat(const char *restrict path, struct stat *restrict about)
{
	return (int)syscall(
	    SYS_newfstatat, AT_FDCWD, path, about, AT_SYMLINK_NOFOLLOW);
}

int
fstat(int fd, struct stat *about)
{
	return (int)syscall(SYS_fstat, fd, about);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
