/*
 * The device code of the stage, as PTX: the driver of a GPU compiles it when
 * it is loaded, and simcuda knows the kernels by their names.
 *
 *	weir_sleep_ns(u64 ns)
 *	weir_pattern_u32(u32 *to, u32 number, u64 n)
 *	weir_check_pattern_u32(u32 *from, u32 number, u64 n, u32 found[2])
 *
 * The pattern of block `number` is a word for each place in the block, and
 * tells blocks and places apart. Words that do not hold it are added to
 * found[0]; the number of the block where that was seen first goes to found[1].
 * Any grid will do: threads take every so-manieth word.
 */
#ifndef TOOLS_WEIR_STAGE_PTX_H
#define TOOLS_WEIR_STAGE_PTX_H

extern const char stage_ptx[];

#endif
