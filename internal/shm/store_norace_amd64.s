//go:build !race

#include "textflag.h"

// func StoreRelease64(p *uint64, v uint64)
//
// A plain store: on amd64 stores become visible in program order, and the call keeps the compiler from moving others
// past it. sync/atomic's store would be an exchange, which waits until every earlier store has reached the cache.
TEXT ·StoreRelease64(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ v+8(FP), BX
	MOVQ BX, (AX)
	RET
