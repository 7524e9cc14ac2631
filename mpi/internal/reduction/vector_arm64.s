#include "textflag.h"

// Go's assembler does not know most vector instructions of arm64, so they are words. The operands are the numbers of registers
// V0 to V31, in the order of the manual, the result being the first; all 16 bytes are used. The letter is the size of an element:
// B, H, S and D are 1, 2, 4 and 8 bytes.

#define ADD_B(d, n, m) WORD $(0x4E208400 | (m)<<16 | (n)<<5 | (d))
#define ADD_H(d, n, m) WORD $(0x4E608400 | (m)<<16 | (n)<<5 | (d))
#define ADD_S(d, n, m) WORD $(0x4EA08400 | (m)<<16 | (n)<<5 | (d))
#define ADD_D(d, n, m) WORD $(0x4EE08400 | (m)<<16 | (n)<<5 | (d))
#define MUL_H(d, n, m) WORD $(0x4E609C00 | (m)<<16 | (n)<<5 | (d))
#define MUL_S(d, n, m) WORD $(0x4EA09C00 | (m)<<16 | (n)<<5 | (d))
#define SMIN_B(d, n, m) WORD $(0x4E206C00 | (m)<<16 | (n)<<5 | (d))
#define SMIN_H(d, n, m) WORD $(0x4E606C00 | (m)<<16 | (n)<<5 | (d))
#define SMIN_S(d, n, m) WORD $(0x4EA06C00 | (m)<<16 | (n)<<5 | (d))
#define SMAX_B(d, n, m) WORD $(0x4E206400 | (m)<<16 | (n)<<5 | (d))
#define SMAX_H(d, n, m) WORD $(0x4E606400 | (m)<<16 | (n)<<5 | (d))
#define SMAX_S(d, n, m) WORD $(0x4EA06400 | (m)<<16 | (n)<<5 | (d))
#define UMIN_B(d, n, m) WORD $(0x6E206C00 | (m)<<16 | (n)<<5 | (d))
#define UMIN_H(d, n, m) WORD $(0x6E606C00 | (m)<<16 | (n)<<5 | (d))
#define UMIN_S(d, n, m) WORD $(0x6EA06C00 | (m)<<16 | (n)<<5 | (d))
#define UMAX_B(d, n, m) WORD $(0x6E206400 | (m)<<16 | (n)<<5 | (d))
#define UMAX_H(d, n, m) WORD $(0x6E606400 | (m)<<16 | (n)<<5 | (d))
#define UMAX_S(d, n, m) WORD $(0x6EA06400 | (m)<<16 | (n)<<5 | (d))
#define CMGT_D(d, n, m) WORD $(0x4EE03400 | (m)<<16 | (n)<<5 | (d))
#define CMHI_D(d, n, m) WORD $(0x6EE03400 | (m)<<16 | (n)<<5 | (d))
#define BSL(d, n, m) WORD $(0x6E601C00 | (m)<<16 | (n)<<5 | (d))
#define BIF(d, n, m) WORD $(0x6EE01C00 | (m)<<16 | (n)<<5 | (d))
#define AND_(d, n, m) WORD $(0x4E201C00 | (m)<<16 | (n)<<5 | (d))
#define ORR_(d, n, m) WORD $(0x4EA01C00 | (m)<<16 | (n)<<5 | (d))
#define EOR_(d, n, m) WORD $(0x6E201C00 | (m)<<16 | (n)<<5 | (d))
#define ORN_(d, n, m) WORD $(0x4EE01C00 | (m)<<16 | (n)<<5 | (d))
#define FADD_S(d, n, m) WORD $(0x4E20D400 | (m)<<16 | (n)<<5 | (d))
#define FMUL_S(d, n, m) WORD $(0x6E20DC00 | (m)<<16 | (n)<<5 | (d))
#define FMIN_S(d, n, m) WORD $(0x4EA0F400 | (m)<<16 | (n)<<5 | (d))
#define FMAX_S(d, n, m) WORD $(0x4E20F400 | (m)<<16 | (n)<<5 | (d))
#define FCMEQ_S(d, n, m) WORD $(0x4E20E400 | (m)<<16 | (n)<<5 | (d))
#define FADD_D(d, n, m) WORD $(0x4E60D400 | (m)<<16 | (n)<<5 | (d))
#define FMUL_D(d, n, m) WORD $(0x6E60DC00 | (m)<<16 | (n)<<5 | (d))
#define FMIN_D(d, n, m) WORD $(0x4EE0F400 | (m)<<16 | (n)<<5 | (d))
#define FMAX_D(d, n, m) WORD $(0x4E60F400 | (m)<<16 | (n)<<5 | (d))
#define FCMEQ_D(d, n, m) WORD $(0x4E60E400 | (m)<<16 | (n)<<5 | (d))
#define FCVTL(d, n) WORD $(0x0E217800 | (n)<<5 | (d))
#define FCVTL2(d, n) WORD $(0x4E217800 | (n)<<5 | (d))
#define FCVTN(d, n) WORD $(0x0E216800 | (n)<<5 | (d))
#define FCVTN2(d, n) WORD $(0x4E216800 | (n)<<5 | (d))
#define SHLL(d, n) WORD $(0x2E613800 | (n)<<5 | (d))
#define SHLL2(d, n) WORD $(0x6E613800 | (n)<<5 | (d))
#define USHR16_S(d, n) WORD $(0x6F300400 | (n)<<5 | (d))
#define UZP2_H(d, n, m) WORD $(0x4E405800 | (m)<<16 | (n)<<5 | (d))

// Each function below is one loop over 64 bytes, one over 16, and one over single elements, around an operation given as a
// macro OP(r, a, b, s): r = a op b, with s as a register to spoil.

#define OPERANDS \
	MOVD dst_base+0(FP), R0 \
	MOVD dst_len+8(FP), R1  \
	MOVD a_base+24(FP), R2  \
	MOVD b_base+48(FP), R3

// LANE is the letter of an element of SIZE bytes.
#define KERNEL(OP, LANE, SIZE) \
	OPERANDS                  \
	SUBS $64, R1, R1          \
	BLT  last64               \
	PCALIGN $32               \
loop64:                    \
	VLD1.P 64(R2), [V0.B16, V1.B16, V2.B16, V3.B16] \
	VLD1.P 64(R3), [V4.B16, V5.B16, V6.B16, V7.B16] \
	OP(16, 0, 4, 20)          \
	OP(17, 1, 5, 21)          \
	OP(18, 2, 6, 22)          \
	OP(19, 3, 7, 23)          \
	VST1.P [V16.B16, V17.B16, V18.B16, V19.B16], 64(R0) \
	SUBS $64, R1, R1          \
	BGE  loop64               \
last64:                    \
	ADDS $48, R1, R1          \
	BLT  last16               \
loop16:                    \
	VLD1.P 16(R2), [V0.B16]   \
	VLD1.P 16(R3), [V4.B16]   \
	OP(16, 0, 4, 20)          \
	VST1.P [V16.B16], 16(R0)  \
	SUBS $16, R1, R1          \
	BGE  loop16               \
last16:                    \
	ADDS $(16-SIZE), R1, R1   \
	BLT  done                 \
loop1:                     \
	VLD1.P SIZE(R2), V0.LANE[0] \
	VLD1.P SIZE(R3), V4.LANE[0] \
	OP(16, 0, 4, 20)          \
	VST1.P V16.LANE[0], SIZE(R0) \
	SUBS $SIZE, R1, R1        \
	BGE  loop1                \
done:                      \
	RET

#define OP_ADD_B(r, a, b, s) ADD_B(r, a, b)
#define OP_ADD_H(r, a, b, s) ADD_H(r, a, b)
#define OP_ADD_S(r, a, b, s) ADD_S(r, a, b)
#define OP_ADD_D(r, a, b, s) ADD_D(r, a, b)
#define OP_FADD_S(r, a, b, s) FADD_S(r, a, b)
#define OP_FADD_D(r, a, b, s) FADD_D(r, a, b)
#define OP_MUL_H(r, a, b, s) MUL_H(r, a, b)
#define OP_MUL_S(r, a, b, s) MUL_S(r, a, b)
#define OP_FMUL_S(r, a, b, s) FMUL_S(r, a, b)
#define OP_FMUL_D(r, a, b, s) FMUL_D(r, a, b)
#define OP_SMIN_B(r, a, b, s) SMIN_B(r, a, b)
#define OP_SMIN_H(r, a, b, s) SMIN_H(r, a, b)
#define OP_SMIN_S(r, a, b, s) SMIN_S(r, a, b)
#define OP_UMIN_B(r, a, b, s) UMIN_B(r, a, b)
#define OP_UMIN_H(r, a, b, s) UMIN_H(r, a, b)
#define OP_UMIN_S(r, a, b, s) UMIN_S(r, a, b)
#define OP_SMAX_B(r, a, b, s) SMAX_B(r, a, b)
#define OP_SMAX_H(r, a, b, s) SMAX_H(r, a, b)
#define OP_SMAX_S(r, a, b, s) SMAX_S(r, a, b)
#define OP_UMAX_B(r, a, b, s) UMAX_B(r, a, b)
#define OP_UMAX_H(r, a, b, s) UMAX_H(r, a, b)
#define OP_UMAX_S(r, a, b, s) UMAX_S(r, a, b)
#define OP_AND(r, a, b, s) AND_(r, a, b)
#define OP_OR(r, a, b, s) ORR_(r, a, b)
#define OP_XOR(r, a, b, s) EOR_(r, a, b)

// The instructions compare integers of 64 bits but have no minimum of them.
#define OP_MIN_INT64(r, a, b, s) \
	CMGT_D(r, a, b)           \
	BSL(r, b, a)

#define OP_MAX_INT64(r, a, b, s) \
	CMGT_D(r, a, b)           \
	BSL(r, a, b)

#define OP_MIN_UINT64(r, a, b, s) \
	CMHI_D(r, a, b)           \
	BSL(r, b, a)

#define OP_MAX_UINT64(r, a, b, s) \
	CMHI_D(r, a, b)           \
	BSL(r, a, b)

// FMIN and FMAX give a NaN where an operand is one, and take -0 as less than +0. All bits of a NaN are then set.
#define OP_MIN_FLOAT32(r, a, b, s) \
	FMIN_S(r, a, b)           \
	FCMEQ_S(s, r, r)          \
	ORN_(r, r, s)

#define OP_MAX_FLOAT32(r, a, b, s) \
	FMAX_S(r, a, b)           \
	FCMEQ_S(s, r, r)          \
	ORN_(r, r, s)

#define OP_MIN_FLOAT64(r, a, b, s) \
	FMIN_D(r, a, b)           \
	FCMEQ_D(s, r, r)          \
	ORN_(r, r, s)

#define OP_MAX_FLOAT64(r, a, b, s) \
	FMAX_D(r, a, b)           \
	FCMEQ_D(s, r, r)          \
	ORN_(r, r, s)

TEXT ·sumInt8(SB), NOSPLIT, $0-72
	KERNEL(OP_ADD_B, B, 1)

TEXT ·sumInt16(SB), NOSPLIT, $0-72
	KERNEL(OP_ADD_H, H, 2)

TEXT ·sumInt32(SB), NOSPLIT, $0-72
	KERNEL(OP_ADD_S, S, 4)

TEXT ·sumInt64(SB), NOSPLIT, $0-72
	KERNEL(OP_ADD_D, D, 8)

TEXT ·sumFloat32(SB), NOSPLIT, $0-72
	KERNEL(OP_FADD_S, S, 4)

TEXT ·sumFloat64(SB), NOSPLIT, $0-72
	KERNEL(OP_FADD_D, D, 8)

TEXT ·prodInt16(SB), NOSPLIT, $0-72
	KERNEL(OP_MUL_H, H, 2)

TEXT ·prodInt32(SB), NOSPLIT, $0-72
	KERNEL(OP_MUL_S, S, 4)

TEXT ·prodFloat32(SB), NOSPLIT, $0-72
	KERNEL(OP_FMUL_S, S, 4)

TEXT ·prodFloat64(SB), NOSPLIT, $0-72
	KERNEL(OP_FMUL_D, D, 8)

TEXT ·minInt8(SB), NOSPLIT, $0-72
	KERNEL(OP_SMIN_B, B, 1)

TEXT ·minInt16(SB), NOSPLIT, $0-72
	KERNEL(OP_SMIN_H, H, 2)

TEXT ·minInt32(SB), NOSPLIT, $0-72
	KERNEL(OP_SMIN_S, S, 4)

TEXT ·minInt64(SB), NOSPLIT, $0-72
	KERNEL(OP_MIN_INT64, D, 8)

TEXT ·minUint8(SB), NOSPLIT, $0-72
	KERNEL(OP_UMIN_B, B, 1)

TEXT ·minUint16(SB), NOSPLIT, $0-72
	KERNEL(OP_UMIN_H, H, 2)

TEXT ·minUint32(SB), NOSPLIT, $0-72
	KERNEL(OP_UMIN_S, S, 4)

TEXT ·minUint64(SB), NOSPLIT, $0-72
	KERNEL(OP_MIN_UINT64, D, 8)

TEXT ·minFloat32(SB), NOSPLIT, $0-72
	KERNEL(OP_MIN_FLOAT32, S, 4)

TEXT ·minFloat64(SB), NOSPLIT, $0-72
	KERNEL(OP_MIN_FLOAT64, D, 8)

TEXT ·maxInt8(SB), NOSPLIT, $0-72
	KERNEL(OP_SMAX_B, B, 1)

TEXT ·maxInt16(SB), NOSPLIT, $0-72
	KERNEL(OP_SMAX_H, H, 2)

TEXT ·maxInt32(SB), NOSPLIT, $0-72
	KERNEL(OP_SMAX_S, S, 4)

TEXT ·maxInt64(SB), NOSPLIT, $0-72
	KERNEL(OP_MAX_INT64, D, 8)

TEXT ·maxUint8(SB), NOSPLIT, $0-72
	KERNEL(OP_UMAX_B, B, 1)

TEXT ·maxUint16(SB), NOSPLIT, $0-72
	KERNEL(OP_UMAX_H, H, 2)

TEXT ·maxUint32(SB), NOSPLIT, $0-72
	KERNEL(OP_UMAX_S, S, 4)

TEXT ·maxUint64(SB), NOSPLIT, $0-72
	KERNEL(OP_MAX_UINT64, D, 8)

TEXT ·maxFloat32(SB), NOSPLIT, $0-72
	KERNEL(OP_MAX_FLOAT32, S, 4)

TEXT ·maxFloat64(SB), NOSPLIT, $0-72
	KERNEL(OP_MAX_FLOAT64, D, 8)

TEXT ·bandBlocks(SB), NOSPLIT, $0-72
	KERNEL(OP_AND, D, 8)

TEXT ·borBlocks(SB), NOSPLIT, $0-72
	KERNEL(OP_OR, D, 8)

TEXT ·bxorBlocks(SB), NOSPLIT, $0-72
	KERNEL(OP_XOR, D, 8)

// Numbers of 16 bits are converted to float32, eight at once, and back. The length is a multiple of 16 bytes. FROM(r, t, h)
// converts the lower four of h into r and the others into t; TO(h, r, t) converts back.

#define FROM_FLOAT16(r, t, h) \
	FCVTL(r, h)               \
	FCVTL2(t, h)

#define TO_FLOAT16(h, r, t) \
	FCVTN(h, r)               \
	FCVTN2(h, t)

// A bfloat16 is the upper half of a float32.
#define FROM_BFLOAT16(r, t, h) \
	SHLL(r, h)                \
	SHLL2(t, h)

#define TO_BFLOAT16(h, r, t) UZP2_H(h, r, t)

// The lower half is rounded to even: 0x7fff, and the lowest bit that remains, are added before it is cut off. Instead of a NaN,
// which this might make infinite, 0x7fc0 is stored. The constants are in V24 to V26.
#define ROUND(r) \
	FCMEQ_S(20, r, r)         \
	USHR16_S(21, r)           \
	AND_(21, 21, 24)          \
	ADD_S(r, r, 21)           \
	ADD_S(r, r, 25)           \
	BIF(r, 26, 20)

#define ROUND_BFLOAT16(h, r, t) \
	ROUND(r)                  \
	ROUND(t)                  \
	TO_BFLOAT16(h, r, t)

#define CONSTANT(value, v) \
	MOVW value, R4            \
	VDUP R4, v

#define HALF_KERNEL(OP, FROM, TO) \
	OPERANDS                  \
	SUBS $16, R1, R1          \
	BLT  done                 \
	PCALIGN $32               \
loop:                      \
	VLD1.P 16(R2), [V0.B16]   \
	VLD1.P 16(R3), [V1.B16]   \
	FROM(2, 3, 0)             \
	FROM(4, 5, 1)             \
	OP(16, 2, 4, 20)          \
	OP(17, 3, 5, 21)          \
	TO(18, 16, 17)            \
	VST1.P [V18.B16], 16(R0)  \
	SUBS $16, R1, R1          \
	BGE  loop                 \
done:                      \
	RET

TEXT ·sumFloat16Blocks(SB), NOSPLIT, $0-72
	HALF_KERNEL(OP_FADD_S, FROM_FLOAT16, TO_FLOAT16)

TEXT ·prodFloat16Blocks(SB), NOSPLIT, $0-72
	HALF_KERNEL(OP_FMUL_S, FROM_FLOAT16, TO_FLOAT16)

TEXT ·minFloat16Blocks(SB), NOSPLIT, $0-72
	HALF_KERNEL(OP_MIN_FLOAT32, FROM_FLOAT16, TO_FLOAT16)

TEXT ·maxFloat16Blocks(SB), NOSPLIT, $0-72
	HALF_KERNEL(OP_MAX_FLOAT32, FROM_FLOAT16, TO_FLOAT16)

TEXT ·sumBFloat16Blocks(SB), NOSPLIT, $0-72
	CONSTANT($1, V24.S4)
	CONSTANT($0x7fff, V25.S4)
	CONSTANT($0x7fc00000, V26.S4)
	HALF_KERNEL(OP_FADD_S, FROM_BFLOAT16, ROUND_BFLOAT16)

TEXT ·prodBFloat16Blocks(SB), NOSPLIT, $0-72
	CONSTANT($1, V24.S4)
	CONSTANT($0x7fff, V25.S4)
	CONSTANT($0x7fc00000, V26.S4)
	HALF_KERNEL(OP_FMUL_S, FROM_BFLOAT16, ROUND_BFLOAT16)

TEXT ·minBFloat16Blocks(SB), NOSPLIT, $0-72
	HALF_KERNEL(OP_MIN_FLOAT32, FROM_BFLOAT16, TO_BFLOAT16)

TEXT ·maxBFloat16Blocks(SB), NOSPLIT, $0-72
	HALF_KERNEL(OP_MAX_FLOAT32, FROM_BFLOAT16, TO_BFLOAT16)
