//go:build linux && !static

#include "textflag.h"

// func trampoline() uintptr
TEXT ·trampoline(SB), NOSPLIT, $0-8
	LEAQ enter<>(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// enter is called by runtime.cgocall on the stack of the thread, as C functions are, with a *call in DI. It does
// c.result = c.fn(c.args[0], c.args[1], c.args[2]).
TEXT enter<>(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BX // the callee's to save; and the stack is aligned again
	MOVQ DI, BX
	MOVQ 8(BX), DI
	MOVQ 16(BX), SI
	MOVQ 24(BX), DX
	MOVQ 0(BX), AX
	CALL AX
	MOVQ AX, 32(BX)
	POPQ BX
	XORL AX, AX
	RET
