/*
 * The device code of the stage, for compute capability 5.0 and above.
 */
#include "tools/weir/replay/stage_ptx.h"

/*
 * The begin of a kernel over n words at a pointer: %i is the index of the word,
 * %step the number of threads, %n the number of words, %at the address of the
 * word, and %key the part of each pattern word that depends on the block.
 */
#define WORDS_BEGIN                                                            \
	"	.reg .pred %done, %same;\n"                                          \
	"	.reg .b32 %a, %b, %key, %word, %seen, %bad, %old;\n"                 \
	"	.reg .b64 %i, %n, %step, %base, %at, %wide, %found;\n"               \
	"	ld.param.u64 %base, [block];\n"                                      \
	"	cvta.to.global.u64 %base, %base;\n"                                  \
	"	ld.param.u32 %key, [number];\n"                                      \
	"	mul.lo.u32 %key, %key, 0x9e3779b1;\n"                                \
	"	ld.param.u64 %n, [n];\n"                                             \
	"	mov.u32 %a, %ctaid.x;\n"                                             \
	"	mov.u32 %b, %ntid.x;\n"                                              \
	"	mul.wide.u32 %i, %a, %b;\n"                                          \
	"	mov.u32 %a, %tid.x;\n"                                               \
	"	cvt.u64.u32 %wide, %a;\n"                                            \
	"	add.u64 %i, %i, %wide;\n"                                            \
	"	mov.u32 %a, %nctaid.x;\n"                                            \
	"	mul.wide.u32 %step, %a, %b;\n"

/* Jump to `end` after the last word, else put the pattern's word into %word. */
#define WORDS_LOOP                                                             \
	"next:\n"                                                              \
	"	setp.ge.u64 %done, %i, %n;\n"                                        \
	"	@%done bra end;\n"                                                   \
	"	shl.b64 %at, %i, 2;\n"                                               \
	"	add.u64 %at, %at, %base;\n"                                          \
	"	cvt.u32.u64 %word, %i;\n"                                            \
	"	add.u32 %word, %word, %key;\n"                                       \
	"	mul.lo.u32 %word, %word, 0x85ebca6b;\n"                              \
	"	add.u64 %i, %i, %step;\n"

/* clang-format off */
const char stage_ptx[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"

    ".visible .entry weir_sleep_ns(.param .u64 ns)\n"
    "{\n"
    "	.reg .pred %more;\n"
    "	.reg .u64 %ns, %start, %now;\n"
    "	ld.param.u64 %ns, [ns];\n"
    "	mov.u64 %start, %globaltimer;\n"
    "again:\n"
    "	mov.u64 %now, %globaltimer;\n"
    "	sub.u64 %now, %now, %start;\n"
    "	setp.lt.u64 %more, %now, %ns;\n"
    "	@%more bra again;\n"
    "	ret;\n"
    "}\n"

    ".visible .entry weir_pattern_u32(\n"
    "	.param .u64 block, .param .u32 number, .param .u64 n)\n"
    "{\n"
    WORDS_BEGIN
    WORDS_LOOP
    "	st.global.u32 [%at], %word;\n"
    "	bra next;\n"
    "end:\n"
    "	ret;\n"
    "}\n"

    /* Each thread counts its mismatches, and adds its count once. */
    ".visible .entry weir_check_pattern_u32(\n"
    "	.param .u64 block, .param .u32 number, .param .u64 n,\n"
    "	.param .u64 found)\n"
    "{\n"
    WORDS_BEGIN
    "	mov.u32 %bad, 0;\n"
    WORDS_LOOP
    "	ld.volatile.global.u32 %seen, [%at];\n"
    "	setp.eq.u32 %same, %seen, %word;\n"
    "	@%same bra next;\n"
    "	add.u32 %bad, %bad, 1;\n"
    "	bra next;\n"
    "end:\n"
    "	setp.eq.u32 %same, %bad, 0;\n"
    "	@%same bra leave;\n"
    "	ld.param.u64 %found, [found];\n"
    "	cvta.to.global.u64 %found, %found;\n"
    "	ld.param.u32 %a, [number];\n"
    "	atom.global.cas.b32 %old, [%found+4], 0, %a;\n"
    "	atom.global.add.u32 %old, [%found], %bad;\n"
    "leave:\n"
    "	ret;\n"
    "}\n";
/* clang-format on */
