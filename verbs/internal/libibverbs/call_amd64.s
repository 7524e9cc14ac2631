//go:build linux && !static

#include "funcdata.h"
#include "textflag.h"

// func direct(fn, a, b, c uintptr) uintptr
//
// The frame is the stack of the C function: the prologue grows the goroutine's stack before. C needs a stack pointer that is a
// multiple of 16. The original one is saved in BX, which C preserves, like R14 and BP. The ABI wrapper, which the Go compiler
// generates, restores X15.
TEXT ·direct(SB), 0, $32768-40
	NO_LOCAL_POINTERS
	MOVQ fn+0(FP), AX
	MOVQ a+8(FP), DI
	MOVQ b+16(FP), SI
	MOVQ c+24(FP), DX
	MOVQ SP, BX
	ANDQ $~15, SP
	CALL AX
	MOVQ BX, SP
	MOVQ AX, ret+32(FP)
	RET
