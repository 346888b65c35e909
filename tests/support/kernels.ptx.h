/*
 * Kernels for tests, as PTX: the driver of a GPU compiles it when it is
 * loaded, and simcuda knows the kernels by name. Any grid will do: threads
 * take every so-manieth element. Assembles for compute capability 7.0 and up.
 *
 *	weir_fill_u32(uint32_t *to, uint32_t value, uint64_t n)
 *	weir_add_u32(uint32_t *to, uint32_t *a, uint32_t *b, uint64_t n)
 *	weir_copy_u32(uint32_t *to, uint32_t *from, uint64_t n)
 *	weir_check_u32(uint32_t *from, uint32_t value, uint64_t n,
 *	    uint32_t *mismatches)		adds to *mismatches, atomically
 *	weir_sleep_ns(uint64_t ns)		at least so long, by every thread
 *	weir_scale_f32(float *to, float *from, float factor, uint64_t n)
 */
#ifndef WEIR_TESTS_SUPPORT_KERNELS_PTX_H
#define WEIR_TESTS_SUPPORT_KERNELS_PTX_H

/*
 * The frame of a kernel over n elements: %rd1 is the element, %rd2 the step,
 * %rd3 is n. Registers from 4 on are the kernel's own.
 */
#define KERNEL_BEGIN(name, params, n)                                          \
	".visible .entry " name "(" params ")\n"                               \
	"{\n"                                                                  \
	"	.reg .pred %p<4>;\n"                                           \
	"	.reg .b32 %r<16>;\n"                                           \
	"	.reg .f32 %f<8>;\n"                                            \
	"	.reg .b64 %rd<24>;\n"                                          \
	"	ld.param.u64 %rd3, [" n "];\n"                                 \
	"	mov.u32 %r1, %ctaid.x;\n"                                      \
	"	mov.u32 %r2, %ntid.x;\n"                                       \
	"	mov.u32 %r3, %tid.x;\n"                                        \
	"	mul.wide.u32 %rd1, %r1, %r2;\n"                                \
	"	cvt.u64.u32 %rd4, %r3;\n"                                      \
	"	add.u64 %rd1, %rd1, %rd4;\n"                                   \
	"	mov.u32 %r1, %nctaid.x;\n"                                     \
	"	mul.wide.u32 %rd2, %r1, %r2;\n"

#define KERNEL_LOOP                                                            \
	"	setp.ge.u64 %p1, %rd1, %rd3;\n"                                \
	"	@%p1 bra DONE;\n"                                              \
	"LOOP:\n"                                                              \
	"	shl.b64 %rd5, %rd1, 2;\n"

#define KERNEL_END                                                             \
	"	add.u64 %rd1, %rd1, %rd2;\n"                                   \
	"	setp.lt.u64 %p1, %rd1, %rd3;\n"                                \
	"	@%p1 bra LOOP;\n"                                              \
	"DONE:\n"                                                              \
	"	ret;\n"                                                        \
	"}\n"

/* A pointer parameter, made an address of global memory. */
#define KERNEL_POINTER(reg, param)                                             \
	"	ld.param.u64 " reg ", [" param "];\n"                          \
	"	cvta.to.global.u64 " reg ", " reg ";\n"

/* clang-format off */
static const char kernels_ptx[] =
    ".version 6.3\n"
    ".target sm_70\n"
    ".address_size 64\n"

    KERNEL_BEGIN("weir_fill_u32",
	".param .u64 to, .param .u32 value, .param .u64 n", "n")
    KERNEL_POINTER("%rd6", "to")
    "	ld.param.u32 %r4, [value];\n"
    KERNEL_LOOP
    "	add.u64 %rd7, %rd6, %rd5;\n"
    "	st.global.u32 [%rd7], %r4;\n"
    KERNEL_END

    KERNEL_BEGIN("weir_add_u32",
	".param .u64 to, .param .u64 a, .param .u64 b, .param .u64 n", "n")
    KERNEL_POINTER("%rd6", "to")
    KERNEL_POINTER("%rd7", "a")
    KERNEL_POINTER("%rd8", "b")
    KERNEL_LOOP
    "	add.u64 %rd9, %rd7, %rd5;\n"
    "	add.u64 %rd10, %rd8, %rd5;\n"
    "	add.u64 %rd11, %rd6, %rd5;\n"
    "	ld.global.u32 %r4, [%rd9];\n"
    "	ld.global.u32 %r5, [%rd10];\n"
    "	add.u32 %r4, %r4, %r5;\n"
    "	st.global.u32 [%rd11], %r4;\n"
    KERNEL_END

    KERNEL_BEGIN("weir_copy_u32",
	".param .u64 to, .param .u64 from, .param .u64 n", "n")
    KERNEL_POINTER("%rd6", "to")
    KERNEL_POINTER("%rd7", "from")
    KERNEL_LOOP
    "	add.u64 %rd8, %rd7, %rd5;\n"
    "	add.u64 %rd9, %rd6, %rd5;\n"
    "	ld.global.u32 %r4, [%rd8];\n"
    "	st.global.u32 [%rd9], %r4;\n"
    KERNEL_END

    KERNEL_BEGIN("weir_check_u32",
	".param .u64 from, .param .u32 value, .param .u64 n, "
	".param .u64 mismatches", "n")
    KERNEL_POINTER("%rd6", "from")
    KERNEL_POINTER("%rd7", "mismatches")
    "	ld.param.u32 %r4, [value];\n"
    KERNEL_LOOP
    "	add.u64 %rd8, %rd6, %rd5;\n"
    "	ld.global.u32 %r5, [%rd8];\n"
    "	setp.eq.u32 %p2, %r5, %r4;\n"
    "	@%p2 bra SAME;\n"
    "	atom.global.add.u32 %r6, [%rd7], 1;\n"
    "SAME:\n"
    KERNEL_END

    KERNEL_BEGIN("weir_scale_f32",
	".param .u64 to, .param .u64 from, .param .f32 factor, .param .u64 n",
	"n")
    KERNEL_POINTER("%rd6", "to")
    KERNEL_POINTER("%rd7", "from")
    "	ld.param.f32 %f1, [factor];\n"
    KERNEL_LOOP
    "	add.u64 %rd8, %rd7, %rd5;\n"
    "	add.u64 %rd9, %rd6, %rd5;\n"
    "	ld.global.f32 %f2, [%rd8];\n"
    "	mul.rn.f32 %f2, %f2, %f1;\n"
    "	st.global.f32 [%rd9], %f2;\n"
    KERNEL_END

    /* It naps between looks at the clock, so as not to starve others. */
    ".visible .entry weir_sleep_ns(.param .u64 ns)\n"
    "{\n"
    "	.reg .pred %p<2>;\n"
    "	.reg .b32 %r<2>;\n"
    "	.reg .b64 %rd<5>;\n"
    "	ld.param.u64 %rd1, [ns];\n"
    "	mov.u32 %r1, 500;\n"
    "	mov.u64 %rd2, %globaltimer;\n"
    "AGAIN:\n"
    "	nanosleep.u32 %r1;\n"
    "	mov.u64 %rd3, %globaltimer;\n"
    "	sub.u64 %rd4, %rd3, %rd2;\n"
    "	setp.lt.u64 %p1, %rd4, %rd1;\n"
    "	@%p1 bra AGAIN;\n"
    "	ret;\n"
    "}\n"

    /* They use nothing of what they are given. */
    ".visible .entry weir_ignore_128(.param .align 8 .b8 s[128])\n"
    "{\n"
    "	ret;\n"
    "}\n"
    ".visible .entry weir_ignore_4000(.param .align 8 .b8 s[4000])\n"
    "{\n"
    "	ret;\n"
    "}\n";
/* clang-format on */

#undef KERNEL_BEGIN
#undef KERNEL_LOOP
#undef KERNEL_END
#undef KERNEL_POINTER

#endif
