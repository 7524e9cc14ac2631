//go:build linux && !static

#include "funcdata.h"
#include "textflag.h"

// func callOn(stack, fn, a, b, c uintptr) uintptr
//
// C preserves BX, which holds the goroutine's stack pointer, and R14 and BP. The ABI wrapper, which the Go compiler generates,
// restores X15.
TEXT ·callOn(SB), NOSPLIT, $0-48
	NO_LOCAL_POINTERS
	MOVQ stack+0(FP), R8
	MOVQ fn+8(FP), AX
	MOVQ a+16(FP), DI
	MOVQ b+24(FP), SI
	MOVQ c+32(FP), DX
	MOVQ SP, BX
	MOVQ R8, SP
	CALL AX
	MOVQ BX, SP
	MOVQ AX, ret+40(FP)
	RET
