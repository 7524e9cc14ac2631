#include "textflag.h"

// Each function below is one loop over 128 bytes, one over 32, and one over single elements, around an operation given as a
// macro OP(a, b, r, s): r = a op b, with s as a register to spoil. It is used on registers of 32 bytes and, for a single
// element in the lowest lane, of 16. Operands are in Go's order, the last one being the result.

#define BLOCK(OP, i) \
	VMOVUPS (i*32)(SI), Y0 \
	VMOVUPS (i*32)(DX), Y1 \
	OP(Y0, Y1, Y2, Y3)     \
	VMOVUPS Y2, (i*32)(DI)

#define NEXT(n) \
	ADDQ $n, SI \
	ADDQ $n, DX \
	ADDQ $n, DI \
	SUBQ $n, CX

// MOV moves an element of SIZE bytes between memory and the lowest lane.
#define KERNEL(OP, MOV, SIZE) \
	MOVQ dst_base+0(FP), DI   \
	MOVQ dst_len+8(FP), CX    \
	MOVQ a_base+24(FP), SI    \
	MOVQ b_base+48(FP), DX    \
	SUBQ $128, CX             \
	JLT  last128              \
	PCALIGN $32               \
loop128:                      \
	BLOCK(OP, 0)              \
	BLOCK(OP, 1)              \
	BLOCK(OP, 2)              \
	BLOCK(OP, 3)              \
	NEXT(128)                 \
	JGE  loop128              \
last128:                      \
	ADDQ $96, CX              \
	JLT  last32               \
loop32:                       \
	BLOCK(OP, 0)              \
	NEXT(32)                  \
	JGE  loop32               \
last32:                       \
	ADDQ $(32-SIZE), CX       \
	JLT  done                 \
loop1:                        \
	MOV  (SI), X0             \
	MOV  (DX), X1             \
	OP(X0, X1, X2, X3)        \
	MOV  X2, (DI)             \
	NEXT(SIZE)                \
	JGE  loop1                \
done:                         \
	VZEROUPPER                \
	RET

#define ADDD(a, b, r, s) VPADDD b, a, r
#define ADDQ_(a, b, r, s) VPADDQ b, a, r
#define ADDPS(a, b, r, s) VADDPS b, a, r
#define ADDPD(a, b, r, s) VADDPD b, a, r
#define MULLD(a, b, r, s) VPMULLD b, a, r
#define MULPS(a, b, r, s) VMULPS b, a, r
#define MULPD(a, b, r, s) VMULPD b, a, r
#define MINSD_(a, b, r, s) VPMINSD b, a, r
#define MAXSD_(a, b, r, s) VPMAXSD b, a, r

// AVX2 compares 64-bit integers but has no minimum of them.
#define MINSQ(a, b, r, s) \
	VPCMPGTQ b, a, s         \
	VPBLENDVB s, b, a, r

#define MAXSQ(a, b, r, s) \
	VPCMPGTQ b, a, s         \
	VPBLENDVB s, a, b, r

// The instructions for minimum and maximum give the second operand for two zeros and where there is a NaN. Taken both ways
// round, they give the same number twice but for zeros of different sign, of which -0 has one bit more. Where there is a
// NaN, the comparison sets all bits.
#define MINPS_(a, b, r, s) \
	VMINPS b, a, r            \
	VMINPS a, b, s            \
	VORPS  s, r, r            \
	VCMPPS $3, b, a, s        \
	VORPS  s, r, r

#define MAXPS_(a, b, r, s) \
	VMAXPS b, a, r            \
	VMAXPS a, b, s            \
	VANDPS s, r, r            \
	VCMPPS $3, b, a, s        \
	VORPS  s, r, r

#define MINPD_(a, b, r, s) \
	VMINPD b, a, r            \
	VMINPD a, b, s            \
	VORPD  s, r, r            \
	VCMPPD $3, b, a, s        \
	VORPD  s, r, r

#define MAXPD_(a, b, r, s) \
	VMAXPD b, a, r            \
	VMAXPD a, b, s            \
	VANDPD s, r, r            \
	VCMPPD $3, b, a, s        \
	VORPD  s, r, r

TEXT ·sumInt32(SB), NOSPLIT, $0-72
	KERNEL(ADDD, VMOVD, 4)

TEXT ·sumInt64(SB), NOSPLIT, $0-72
	KERNEL(ADDQ_, VMOVQ, 8)

TEXT ·sumFloat32(SB), NOSPLIT, $0-72
	KERNEL(ADDPS, VMOVD, 4)

TEXT ·sumFloat64(SB), NOSPLIT, $0-72
	KERNEL(ADDPD, VMOVQ, 8)

TEXT ·prodInt32(SB), NOSPLIT, $0-72
	KERNEL(MULLD, VMOVD, 4)

TEXT ·prodFloat32(SB), NOSPLIT, $0-72
	KERNEL(MULPS, VMOVD, 4)

TEXT ·prodFloat64(SB), NOSPLIT, $0-72
	KERNEL(MULPD, VMOVQ, 8)

TEXT ·minInt32(SB), NOSPLIT, $0-72
	KERNEL(MINSD_, VMOVD, 4)

TEXT ·minInt64(SB), NOSPLIT, $0-72
	KERNEL(MINSQ, VMOVQ, 8)

TEXT ·minFloat32(SB), NOSPLIT, $0-72
	KERNEL(MINPS_, VMOVD, 4)

TEXT ·minFloat64(SB), NOSPLIT, $0-72
	KERNEL(MINPD_, VMOVQ, 8)

TEXT ·maxInt32(SB), NOSPLIT, $0-72
	KERNEL(MAXSD_, VMOVD, 4)

TEXT ·maxInt64(SB), NOSPLIT, $0-72
	KERNEL(MAXSQ, VMOVQ, 8)

TEXT ·maxFloat32(SB), NOSPLIT, $0-72
	KERNEL(MAXPS_, VMOVD, 4)

TEXT ·maxFloat64(SB), NOSPLIT, $0-72
	KERNEL(MAXPD_, VMOVQ, 8)

// Numbers of 16 bits are added as float32, eight at once. The length is a multiple of 16 bytes.

TEXT ·addFloat16Blocks(SB), NOSPLIT, $0-72
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ a_base+24(FP), SI
	MOVQ b_base+48(FP), DX
	SUBQ $16, CX
	JLT  done
	PCALIGN $32
loop:
	VCVTPH2PS (SI), Y0
	VCVTPH2PS (DX), Y1
	VADDPS Y1, Y0, Y2
	VCVTPS2PH $0, Y2, (DI)
	NEXT(16)
	JGE  loop
done:
	VZEROUPPER
	RET

// A bfloat16 is the upper half of a float32. The lower half of the sum is rounded to even: 0x7fff, and the lowest bit that
// remains, are added before it is cut off. Instead of a NaN, which this might make infinite, 0x7fc0 is stored.
TEXT ·addBFloat16Blocks(SB), NOSPLIT, $0-72
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ a_base+24(FP), SI
	MOVQ b_base+48(FP), DX
	MOVL $1, AX
	VMOVD AX, X8
	VPBROADCASTD X8, Y8
	MOVL $0x7fff, AX
	VMOVD AX, X9
	VPBROADCASTD X9, Y9
	MOVL $0x7fc0, AX
	VMOVD AX, X10
	VPBROADCASTD X10, Y10
	SUBQ $16, CX
	JLT  done
	PCALIGN $32
loop:
	VPMOVZXWD (SI), Y0
	VPMOVZXWD (DX), Y1
	VPSLLD $16, Y0, Y0
	VPSLLD $16, Y1, Y1
	VADDPS Y1, Y0, Y2
	VCMPPS $3, Y2, Y2, Y5
	VPSRLD $16, Y2, Y3
	VPAND  Y8, Y3, Y3
	VPADDD Y3, Y2, Y4
	VPADDD Y9, Y4, Y4
	VPSRLD $16, Y4, Y4
	VPBLENDVB Y5, Y10, Y4, Y4
	VPACKUSDW Y4, Y4, Y4
	VPERMQ $0x08, Y4, Y4
	VMOVDQU X4, (DI)
	NEXT(16)
	JGE  loop
done:
	VZEROUPPER
	RET
