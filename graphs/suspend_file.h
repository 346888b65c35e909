/*
 * The file of a device that sleeps: it has no name, so it ends with its
 * descriptor, and no other program finds it.
 */
#ifndef GRAPHS_SUSPEND_FILE_H
#define GRAPHS_SUSPEND_FILE_H

#include <sys/types.h>

#include <weir/weir.h>

struct suspend_file {
	int fd; /* -1: none */
	/* Its identity: a program that closes descriptors which it has not
	 * opened may have opened another file with this number. */
	dev_t device;
	ino_t inode;
};

/*
 * Make a file in a folder, with its space on the disk.
 *
 * @return WEIR_EFILE: the folder, the space, or the process's limits
 */
enum weir_status suspend_file_make(
    const char *folder, uint64_t bytes, struct suspend_file *out);

/* Move bytes to the file or from it. Returns 0 or an errno; -1 is the end of
 * the file. */
int suspend_file_write(
    const struct suspend_file *file, const void *from, size_t n, uint64_t at);
int suspend_file_read(
    const struct suspend_file *file, void *to, size_t n, uint64_t at);

/* Wait until the disk has all bytes, because it may fail later. Returns 0 or an
 * errno. */
int suspend_file_flush(const struct suspend_file *file);

/* End the file and its space. */
void suspend_file_drop(struct suspend_file *file);

#endif
