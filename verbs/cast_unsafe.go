package verbs

// Unsafe because completions go from a provider into the caller's slice without being copied, and lists from there into a
// queue: WC and SGE are those of package ib, with types, and a test holds sizes and offsets together.

import (
	"unsafe"

	"github.com/ibrun/ibrun/verbs/internal/ib"
)

func castWC(wc []WC) []ib.WC { return *(*[]ib.WC)(unsafe.Pointer(&wc)) }

func castSGE(sge []SGE) []ib.SGE { return *(*[]ib.SGE)(unsafe.Pointer(&sge)) }
