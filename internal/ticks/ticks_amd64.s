#include "textflag.h"

// func Now() uint64
TEXT ·Now(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET

// func Steady() bool
TEXT ·Steady(SB), NOSPLIT, $0-1
	MOVB $0, ret+0(FP)
	MOVL $0x80000000, AX
	CPUID
	CMPL AX, $0x80000007
	JCS  no
	MOVL $0x80000007, AX
	CPUID
	BTL  $8, DX
	SETCS ret+0(FP)
no:
	RET
