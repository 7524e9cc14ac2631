//go:build !race

#include "textflag.h"

// func stream(dst, src []byte)
//
// Single bytes up to a multiple of 32 in dst, then 128 bytes at a time with stores that go past the caches, then single bytes.
TEXT ·stream(SB), NOSPLIT, $0-48
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ src_base+24(FP), SI

head:
	TESTQ $31, DI
	JZ    body
	TESTQ CX, CX
	JZ    done
	MOVB  (SI), AX
	MOVB  AX, (DI)
	INCQ  SI
	INCQ  DI
	DECQ  CX
	JMP   head

body:
	SUBQ $128, CX
	JLT  tail

loop:
	VMOVUPS  (SI), Y0
	VMOVUPS  32(SI), Y1
	VMOVUPS  64(SI), Y2
	VMOVUPS  96(SI), Y3
	VMOVNTPS Y0, (DI)
	VMOVNTPS Y1, 32(DI)
	VMOVNTPS Y2, 64(DI)
	VMOVNTPS Y3, 96(DI)
	ADDQ     $128, SI
	ADDQ     $128, DI
	SUBQ     $128, CX
	JGE      loop
	VZEROUPPER

tail:
	ADDQ $128, CX

rest:
	JZ   done
	MOVB (SI), AX
	MOVB AX, (DI)
	INCQ SI
	INCQ DI
	DECQ CX
	JMP  rest

done:
	SFENCE // such stores are seen in any order; what is published afterwards comes after them
	RET
