/*
 * dlsym() and dlvsym() in place of the C library's.
 *
 * Their answers for RTLD_NEXT and RTLD_DEFAULT depend on the caller, which the
 * C library identifies by the return address. So a query that gets no hook is
 * forwarded by a jump, which leaves arguments, stack and return address as they
 * are. C does not guarantee such a tail call, so this is assembly.
 *
 * Each function calls its lookup and gets struct lookup_answer in two
 * registers.
 */
#include "preload/preload.h"

#if defined(__x86_64__)

/* Three pushes align the stack to 16 bytes, as a call needs. */
#define STUB(name, lookup)                                                     \
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
		"call " lookup "\n"                                            \
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

/* hint #34 is `bti c`; with branch protection on, a jump through x16 is
 * allowed. */
#define STUB(name, lookup)                                                     \
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
		"bl " lookup "\n"                                              \
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
#error "preload/stub.c knows x86-64 and aarch64"
#endif

STUB("dlsym", "lookup_dlsym");
STUB("dlvsym", "lookup_dlvsym");
