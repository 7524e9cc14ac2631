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

#define LOAD1(m, r) VPINSRB $0, m, r, r
#define LOAD2(m, r) VPINSRW $0, m, r, r
#define LOAD4(m, r) VMOVD m, r
#define LOAD8(m, r) VMOVQ m, r
#define STORE1(r, m) VPEXTRB $0, r, m
#define STORE2(r, m) VPEXTRW $0, r, m
#define STORE4(r, m) VMOVD r, m
#define STORE8(r, m) VMOVQ r, m

// LOAD and STORE move an element of SIZE bytes between memory and the lowest lane.
#define KERNEL(OP, LOAD, STORE, SIZE) \
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
	LOAD((SI), X0)            \
	LOAD((DX), X1)            \
	OP(X0, X1, X2, X3)        \
	STORE(X2, (DI))           \
	NEXT(SIZE)                \
	JGE  loop1                \
done:                         \
	VZEROUPPER                \
	RET

#define ADDB_(a, b, r, s) VPADDB b, a, r
#define ADDW_(a, b, r, s) VPADDW b, a, r
#define ADDD(a, b, r, s) VPADDD b, a, r
#define ADDQ_(a, b, r, s) VPADDQ b, a, r
#define ADDPS(a, b, r, s) VADDPS b, a, r
#define ADDPD(a, b, r, s) VADDPD b, a, r
#define MULLW_(a, b, r, s) VPMULLW b, a, r
#define MULLD(a, b, r, s) VPMULLD b, a, r
#define MULPS(a, b, r, s) VMULPS b, a, r
#define MULPD(a, b, r, s) VMULPD b, a, r
#define AND_(a, b, r, s) VPAND b, a, r
#define OR_(a, b, r, s) VPOR b, a, r
#define XOR_(a, b, r, s) VPXOR b, a, r
#define MINSB_(a, b, r, s) VPMINSB b, a, r
#define MINSW_(a, b, r, s) VPMINSW b, a, r
#define MINSD_(a, b, r, s) VPMINSD b, a, r
#define MINUB_(a, b, r, s) VPMINUB b, a, r
#define MINUW_(a, b, r, s) VPMINUW b, a, r
#define MINUD_(a, b, r, s) VPMINUD b, a, r
#define MAXSB_(a, b, r, s) VPMAXSB b, a, r
#define MAXSW_(a, b, r, s) VPMAXSW b, a, r
#define MAXSD_(a, b, r, s) VPMAXSD b, a, r
#define MAXUB_(a, b, r, s) VPMAXUB b, a, r
#define MAXUW_(a, b, r, s) VPMAXUW b, a, r
#define MAXUD_(a, b, r, s) VPMAXUD b, a, r

// AVX2 compares signed integers of 64 bits but has no minimum of them.
#define MINSQ(a, b, r, s) \
	VPCMPGTQ b, a, s         \
	VPBLENDVB s, b, a, r

#define MAXSQ(a, b, r, s) \
	VPCMPGTQ b, a, s         \
	VPBLENDVB s, a, b, r

// GREATERUQ sets s where a is greater than b, as unsigned integers: it compares them after their upper bits are inverted.
#define GREATERUQ(a, b, r, s) \
	VPCMPEQQ s, s, s         \
	VPSLLQ $63, s, s         \
	VPXOR s, a, r            \
	VPXOR s, b, s            \
	VPCMPGTQ s, r, s

#define MINUQ(a, b, r, s) \
	GREATERUQ(a, b, r, s)    \
	VPBLENDVB s, b, a, r

#define MAXUQ(a, b, r, s) \
	GREATERUQ(a, b, r, s)    \
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

TEXT ·sumInt8(SB), NOSPLIT, $0-72
	KERNEL(ADDB_, LOAD1, STORE1, 1)

TEXT ·sumInt16(SB), NOSPLIT, $0-72
	KERNEL(ADDW_, LOAD2, STORE2, 2)

TEXT ·sumInt32(SB), NOSPLIT, $0-72
	KERNEL(ADDD, LOAD4, STORE4, 4)

TEXT ·sumInt64(SB), NOSPLIT, $0-72
	KERNEL(ADDQ_, LOAD8, STORE8, 8)

TEXT ·sumFloat32(SB), NOSPLIT, $0-72
	KERNEL(ADDPS, LOAD4, STORE4, 4)

TEXT ·sumFloat64(SB), NOSPLIT, $0-72
	KERNEL(ADDPD, LOAD8, STORE8, 8)

TEXT ·prodInt16(SB), NOSPLIT, $0-72
	KERNEL(MULLW_, LOAD2, STORE2, 2)

TEXT ·prodInt32(SB), NOSPLIT, $0-72
	KERNEL(MULLD, LOAD4, STORE4, 4)

TEXT ·prodFloat32(SB), NOSPLIT, $0-72
	KERNEL(MULPS, LOAD4, STORE4, 4)

TEXT ·prodFloat64(SB), NOSPLIT, $0-72
	KERNEL(MULPD, LOAD8, STORE8, 8)

TEXT ·minInt8(SB), NOSPLIT, $0-72
	KERNEL(MINSB_, LOAD1, STORE1, 1)

TEXT ·minInt16(SB), NOSPLIT, $0-72
	KERNEL(MINSW_, LOAD2, STORE2, 2)

TEXT ·minInt32(SB), NOSPLIT, $0-72
	KERNEL(MINSD_, LOAD4, STORE4, 4)

TEXT ·minInt64(SB), NOSPLIT, $0-72
	KERNEL(MINSQ, LOAD8, STORE8, 8)

TEXT ·minUint8(SB), NOSPLIT, $0-72
	KERNEL(MINUB_, LOAD1, STORE1, 1)

TEXT ·minUint16(SB), NOSPLIT, $0-72
	KERNEL(MINUW_, LOAD2, STORE2, 2)

TEXT ·minUint32(SB), NOSPLIT, $0-72
	KERNEL(MINUD_, LOAD4, STORE4, 4)

TEXT ·minUint64(SB), NOSPLIT, $0-72
	KERNEL(MINUQ, LOAD8, STORE8, 8)

TEXT ·minFloat32(SB), NOSPLIT, $0-72
	KERNEL(MINPS_, LOAD4, STORE4, 4)

TEXT ·minFloat64(SB), NOSPLIT, $0-72
	KERNEL(MINPD_, LOAD8, STORE8, 8)

TEXT ·maxInt8(SB), NOSPLIT, $0-72
	KERNEL(MAXSB_, LOAD1, STORE1, 1)

TEXT ·maxInt16(SB), NOSPLIT, $0-72
	KERNEL(MAXSW_, LOAD2, STORE2, 2)

TEXT ·maxInt32(SB), NOSPLIT, $0-72
	KERNEL(MAXSD_, LOAD4, STORE4, 4)

TEXT ·maxInt64(SB), NOSPLIT, $0-72
	KERNEL(MAXSQ, LOAD8, STORE8, 8)

TEXT ·maxUint8(SB), NOSPLIT, $0-72
	KERNEL(MAXUB_, LOAD1, STORE1, 1)

TEXT ·maxUint16(SB), NOSPLIT, $0-72
	KERNEL(MAXUW_, LOAD2, STORE2, 2)

TEXT ·maxUint32(SB), NOSPLIT, $0-72
	KERNEL(MAXUD_, LOAD4, STORE4, 4)

TEXT ·maxUint64(SB), NOSPLIT, $0-72
	KERNEL(MAXUQ, LOAD8, STORE8, 8)

TEXT ·maxFloat32(SB), NOSPLIT, $0-72
	KERNEL(MAXPS_, LOAD4, STORE4, 4)

TEXT ·maxFloat64(SB), NOSPLIT, $0-72
	KERNEL(MAXPD_, LOAD8, STORE8, 8)

TEXT ·bandBlocks(SB), NOSPLIT, $0-72
	KERNEL(AND_, LOAD8, STORE8, 8)

TEXT ·borBlocks(SB), NOSPLIT, $0-72
	KERNEL(OR_, LOAD8, STORE8, 8)

TEXT ·bxorBlocks(SB), NOSPLIT, $0-72
	KERNEL(XOR_, LOAD8, STORE8, 8)

// Numbers of 16 bits are converted to float32, eight at once, and back. The length is a multiple of 16 bytes. The macros convert
// between memory and Y registers.

#define FROM_FLOAT16(m, r) VCVTPH2PS m, r
#define TO_FLOAT16(r, m) VCVTPS2PH $0, r, m

// A bfloat16 is the upper half of a float32.
#define FROM_BFLOAT16(m, r) \
	VPMOVZXWD m, r             \
	VPSLLD $16, r, r

#define TO_BFLOAT16(r, m) \
	VPSRLD $16, r, r           \
	VPACKUSDW r, r, r          \
	VPERMQ $0x08, r, r         \
	VMOVDQU X2, m

// The lower half is rounded to even: 0x7fff, and the lowest bit that remains, are added before it is cut off. Instead of a NaN,
// which this might make infinite, 0x7fc0 is stored. r is Y2, and the constants are in Y8 to Y10.
#define ROUND_BFLOAT16(r, m) \
	VCMPPS $3, r, r, Y5        \
	VPSRLD $16, r, Y3          \
	VPAND  Y8, Y3, Y3          \
	VPADDD Y3, r, r            \
	VPADDD Y9, r, r            \
	VPBLENDVB Y5, Y10, r, r    \
	TO_BFLOAT16(r, m)

#define CONSTANT(value, x, y) \
	MOVL value, AX             \
	VMOVD AX, x                \
	VPBROADCASTD x, y

#define HALF_KERNEL(OP, FROM, TO) \
	MOVQ dst_base+0(FP), DI    \
	MOVQ dst_len+8(FP), CX     \
	MOVQ a_base+24(FP), SI     \
	MOVQ b_base+48(FP), DX     \
	SUBQ $16, CX               \
	JLT  done                  \
	PCALIGN $32                \
loop:                       \
	FROM((SI), Y0)             \
	FROM((DX), Y1)             \
	OP(Y0, Y1, Y2, Y3)         \
	TO(Y2, (DI))               \
	NEXT(16)                   \
	JGE  loop                  \
done:                       \
	VZEROUPPER                 \
	RET

TEXT ·sumFloat16Blocks(SB), NOSPLIT, $0-72
	HALF_KERNEL(ADDPS, FROM_FLOAT16, TO_FLOAT16)

TEXT ·prodFloat16Blocks(SB), NOSPLIT, $0-72
	HALF_KERNEL(MULPS, FROM_FLOAT16, TO_FLOAT16)

TEXT ·minFloat16Blocks(SB), NOSPLIT, $0-72
	HALF_KERNEL(MINPS_, FROM_FLOAT16, TO_FLOAT16)

TEXT ·maxFloat16Blocks(SB), NOSPLIT, $0-72
	HALF_KERNEL(MAXPS_, FROM_FLOAT16, TO_FLOAT16)

TEXT ·sumBFloat16Blocks(SB), NOSPLIT, $0-72
	CONSTANT($1, X8, Y8)
	CONSTANT($0x7fff, X9, Y9)
	CONSTANT($0x7fc00000, X10, Y10)
	HALF_KERNEL(ADDPS, FROM_BFLOAT16, ROUND_BFLOAT16)

TEXT ·prodBFloat16Blocks(SB), NOSPLIT, $0-72
	CONSTANT($1, X8, Y8)
	CONSTANT($0x7fff, X9, Y9)
	CONSTANT($0x7fc00000, X10, Y10)
	HALF_KERNEL(MULPS, FROM_BFLOAT16, ROUND_BFLOAT16)

TEXT ·minBFloat16Blocks(SB), NOSPLIT, $0-72
	HALF_KERNEL(MINPS_, FROM_BFLOAT16, TO_BFLOAT16)

TEXT ·maxBFloat16Blocks(SB), NOSPLIT, $0-72
	HALF_KERNEL(MAXPS_, FROM_BFLOAT16, TO_BFLOAT16)
