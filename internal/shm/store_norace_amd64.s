//go:build !race

#include "textflag.h"

// func StoreRelease64(p *uint64, v uint64)
//
// A plain store is enough: on amd64 stores become visible in program order, and because this is a call the compiler does
// not move other stores past it. The store of sync/atomic is an exchange, which waits until every earlier store has
// reached the cache.
TEXT ·StoreRelease64(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ v+8(FP), BX
	MOVQ BX, (AX)
	RET
