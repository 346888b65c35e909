/*
 * dlsym() and dlvsym() in place of the C library's.
 *
 * Their answers for RTLD_NEXT and RTLD_DEFAULT depend on the caller, which the
 * C library knows by the return address. So a query that is not for weir is
 * forwarded by a jump, which leaves arguments, stack and return address as they
 * are. C does not guarantee such a tail call; these instructions do.
 *
 * Each calls its door and gets struct door_answer in two registers.
 */
#include "tools/preload/preload.h"

#if defined(__x86_64__)

/* Three pushes leave the stack as the call needs it: a multiple of 16. */
#define STUB(name, door)                                                       \
	__asm__(".text\n"                                                      \
		".p2align 4\n"                                                 \
		".globl " name "\n"                                            \
		".type " name ", @function\n" name ":\n"                       \
		".cfi_startproc\n"                                             \
		"endbr64\n"                                                    \
		"pushq %rdi\n"                                                 \
		".cfi_adjust_cfa_offset 8\n"                                   \
		"pushq %rsi\n"                                                 \
		".cfi_adjust_cfa_offset 8\n"                                   \
		"pushq %rdx\n"                                                 \
		".cfi_adjust_cfa_offset 8\n"                                   \
		"call " door "\n"                                              \
		"testq %rax, %rax\n"                                           \
		"je 1f\n"                                                      \
		"popq %rdx\n"                                                  \
		".cfi_adjust_cfa_offset -8\n"                                  \
		"popq %rsi\n"                                                  \
		".cfi_adjust_cfa_offset -8\n"                                  \
		"popq %rdi\n"                                                  \
		".cfi_adjust_cfa_offset -8\n"                                  \
		"jmpq *%rax\n"                                                 \
		"1:\n"                                                         \
		".cfi_adjust_cfa_offset 24\n"                                  \
		"movq %rdx, %rax\n"                                            \
		"addq $24, %rsp\n"                                             \
		".cfi_adjust_cfa_offset -24\n"                                 \
		"ret\n"                                                        \
		".cfi_endproc\n"                                               \
		".size " name ", . - " name "\n")

#elif defined(__aarch64__)

/* hint #34 is `bti c`; x16 may be jumped through under that protection. */
#define STUB(name, door)                                                       \
	__asm__(".text\n"                                                      \
		".p2align 4\n"                                                 \
		".globl " name "\n"                                            \
		".type " name ", %function\n" name ":\n"                       \
		".cfi_startproc\n"                                             \
		"hint #34\n"                                                   \
		"stp x29, x30, [sp, #-48]!\n"                                  \
		".cfi_def_cfa_offset 48\n"                                     \
		".cfi_offset x29, -48\n"                                       \
		".cfi_offset x30, -40\n"                                       \
		"mov x29, sp\n"                                                \
		"stp x0, x1, [sp, #16]\n"                                      \
		"str x2, [sp, #32]\n"                                          \
		"bl " door "\n"                                                \
		"mov x16, x0\n"                                                \
		"mov x9, x1\n"                                                 \
		"ldp x0, x1, [sp, #16]\n"                                      \
		"ldr x2, [sp, #32]\n"                                          \
		"ldp x29, x30, [sp], #48\n"                                    \
		".cfi_def_cfa_offset 0\n"                                      \
		".cfi_restore x29\n"                                           \
		".cfi_restore x30\n"                                           \
		"cbz x16, 1f\n"                                                \
		"br x16\n"                                                     \
		"1: mov x0, x9\n"                                              \
		"ret\n"                                                        \
		".cfi_endproc\n"                                               \
		".size " name ", . - " name "\n")

#else
#error "tools/preload/stub.c knows x86-64 and aarch64"
#endif

STUB("dlsym", "door_dlsym");
STUB("dlvsym", "door_dlvsym");
