//go:build linux && !static

#include "funcdata.h"
#include "textflag.h"

// func direct(fn, a, b, c uintptr) uintptr
//
// The frame is what a C function gets of the goroutine's stack: the prologue has it grow before. C keeps BX, and with it the
// stack pointer, which C wants at a multiple of 16; it keeps R14 and BP as well, and leaves X15 to the wrapper that Go makes.
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
