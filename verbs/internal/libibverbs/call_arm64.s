//go:build linux && !static

#include "funcdata.h"
#include "textflag.h"

// func callOn(stack, fn, a, b, c uintptr) uintptr
//
// C preserves R19, which holds the goroutine's stack pointer, and R28 and R29.
TEXT ·callOn(SB), NOSPLIT, $0-48
	NO_LOCAL_POINTERS
	MOVD stack+0(FP), R9
	MOVD fn+8(FP), R8
	MOVD a+16(FP), R0
	MOVD b+24(FP), R1
	MOVD c+32(FP), R2
	MOVD RSP, R19
	MOVD R9, RSP
	CALL (R8)
	MOVD R19, RSP
	MOVD R0, ret+40(FP)
	RET
