/*
 * Physical memory: extents of a device's file.
 *
 * Offsets only rise and are never used again. So the race checker can use an
 * offset as an identity, memory that is allocated in sequence is contiguous, so
 * that the kernel maps it as one piece, and the file is sparse. The limit
 * counts bytes in use. Freed memory is punched out of the file, unless another
 * process may have it.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "simcuda/joint.h"
#include "simcuda/sim.h"

bool
phys_is_host(const struct phys *phys)
{
	return phys->device == &sim.machine;
}

void
phys_drop(struct phys *phys)
{
	if (--phys->refs > 0)
		return;
	if (phys->handle != 0)
		handle_drop(HANDLE_PHYS, phys->handle);
	if (phys->touched)
		race_forget(phys->space, phys->race_offset, phys->size);
	if (phys->foreign) {
		close(phys->fd);
	} else {
		phys->device->used_bytes -= phys->size;
		joint_give(phys->device->ordinal, phys->size);
		if (!phys->exported)
			fallocate(phys->fd,
			    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			    (off_t)phys->offset, (off_t)phys->size);
	}
	free(phys);
}

/* ---- address space ------------------------------------------------------ */

uint64_t
address_reserve(size_t size, size_t alignment, uint64_t hint)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *memory = MAP_FAILED;
	uint64_t address, start;

	if (hint != 0 && hint % alignment == 0) {
		memory = mmap((void *)(uintptr_t)hint, size, PROT_NONE,
		    flags | MAP_FIXED_NOREPLACE, -1, 0);
		if (memory != MAP_FAILED && handle_bits(memory) != hint) {
			munmap(memory, size);
			memory = MAP_FAILED;
		}
		if (memory != MAP_FAILED)
			return hint;
	}
	memory = mmap(NULL, size + alignment, PROT_NONE, flags, -1, 0);
	if (memory == MAP_FAILED)
		return 0;
	start = handle_bits(memory);
	address = (start + alignment - 1) / alignment * alignment;
	if (address > start)
		munmap(memory, address - start);
	munmap(
	    (void *)(uintptr_t)(address + size), start + alignment - address);
	return address;
}

void
address_release(uint64_t address, size_t size)
{
	munmap((void *)(uintptr_t)address, size);
}

bool
address_clear(uint64_t address, size_t size)
{
	return mmap((void *)(uintptr_t)address, size, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
		   0) != MAP_FAILED;
}

bool
phys_map(const struct phys *phys, size_t size, uint64_t address, int prot)
{
	return mmap((void *)(uintptr_t)address, size, prot,
		   MAP_SHARED | MAP_NORESERVE | MAP_FIXED, phys->fd,
		   (off_t)phys->offset) != MAP_FAILED;
}
