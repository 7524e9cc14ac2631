//go:build linux && !static

#include "funcdata.h"
#include "textflag.h"

// func direct(fn, a, b, c uintptr) uintptr
//
// The frame is the stack of the C function: the prologue grows the goroutine's stack before. The stack pointer has the alignment
// that C needs. C preserves R28 and R29.
TEXT ·direct(SB), 0, $32768-40
	NO_LOCAL_POINTERS
	MOVD fn+0(FP), R8
	MOVD a+8(FP), R0
	MOVD b+16(FP), R1
	MOVD c+24(FP), R2
	CALL (R8)
	MOVD R0, ret+32(FP)
	RET
