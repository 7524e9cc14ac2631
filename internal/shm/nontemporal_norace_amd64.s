//go:build !race

#include "textflag.h"

// func copyLines(dst, src []byte)
//
// It copies one cache line per iteration, with SSE2 stores, which every amd64 processor has.
TEXT ·copyLines(SB), NOSPLIT, $0-48
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ src_base+24(FP), SI
	JMP  test

line:
	MOVOU  (SI), X0
	MOVOU  16(SI), X1
	MOVOU  32(SI), X2
	MOVOU  48(SI), X3
	MOVNTO X0, (DI)
	MOVNTO X1, 16(DI)
	MOVNTO X2, 32(DI)
	MOVNTO X3, 48(DI)
	ADDQ   $64, SI
	ADDQ   $64, DI

test:
	SUBQ   $64, CX
	JGE    line
	SFENCE // non-temporal stores are not ordered: this orders them before the store that publishes the record
	RET
