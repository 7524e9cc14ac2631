#include "textflag.h"

// func fold(start uint32, b []byte) uint32
//
// Z0 to Z3 have the same remainder as the bytes before SI, in parts of 16 bytes. An iteration multiplies the halves of each part
// by their factors, and adds the two products and the next bytes. The remainder of the last 256 bytes is computed by CRC32Q.
TEXT ·fold(SB), NOSPLIT, $256-36
	MOVQ            b_base+8(FP), SI
	MOVQ            b_len+16(FP), CX
	MOVL            start+0(FP), AX
	VBROADCASTI32X4 ·factors(SB), Z8
	VMOVD           AX, X9          // clears the rest of Z9
	VPXORQ          (SI), Z9, Z0
	VMOVDQU64       64(SI), Z1
	VMOVDQU64       128(SI), Z2
	VMOVDQU64       192(SI), Z3
	JMP             test

block:
	VPCLMULQDQ $0x00, Z8, Z0, Z4
	VPCLMULQDQ $0x00, Z8, Z1, Z5
	VPCLMULQDQ $0x00, Z8, Z2, Z6
	VPCLMULQDQ $0x00, Z8, Z3, Z7
	VPCLMULQDQ $0x11, Z8, Z0, Z0
	VPCLMULQDQ $0x11, Z8, Z1, Z1
	VPCLMULQDQ $0x11, Z8, Z2, Z2
	VPCLMULQDQ $0x11, Z8, Z3, Z3
	VPTERNLOGQ $0x96, (SI), Z4, Z0  // the sum of three
	VPTERNLOGQ $0x96, 64(SI), Z5, Z1
	VPTERNLOGQ $0x96, 128(SI), Z6, Z2
	VPTERNLOGQ $0x96, 192(SI), Z7, Z3

test:
	ADDQ      $256, SI
	SUBQ      $256, CX
	JNE       block
	VMOVDQU64 Z0, state-256(SP)
	VMOVDQU64 Z1, state-192(SP)
	VMOVDQU64 Z2, state-128(SP)
	VMOVDQU64 Z3, state-64(SP)
	VZEROUPPER
	XORL      AX, AX
	XORQ      CX, CX

word:
	CRC32Q state-256(SP)(CX*1), AX
	ADDQ   $8, CX
	CMPQ   CX, $256
	JNE    word
	MOVL   AX, ret+32(FP)
	RET
