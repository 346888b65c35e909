/*
 * The device code of the stage, as PTX. The driver of a GPU compiles it at
 * load time, and simcuda knows the kernels by their names.
 *
 *	weir_sleep_ns(u64 ns)
 *	weir_pattern_u32(u32 *to, u32 number, u64 n)
 *	weir_check_pattern_u32(u32 *from, u32 number, u64 n, u32 found[2])
 *
 * The pattern of block `number` has a word for each place in the block, which
 * depends on the block and the place. found[0] counts the words that differ
 * from the pattern, and found[1] is the number of the first block that has
 * some. The kernels work with any grid: each thread takes every n-th word.
 */
#ifndef TOOLS_WEIR_REPLAY_STAGE_PTX_H
#define TOOLS_WEIR_REPLAY_STAGE_PTX_H

extern const char stage_ptx[];

#endif
