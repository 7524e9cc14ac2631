package verbs

// Unsafe because a provider writes completions directly into the caller's slice, and reads lists directly from it: WC, SGE and
// Receive have the layout of those in package ib, which TestLayout checks.

import (
	"unsafe"

	"github.com/ibrun/ibrun/verbs/internal/ib"
)

func castWC(wc []WC) []ib.WC { return *(*[]ib.WC)(unsafe.Pointer(&wc)) }

func castSGE(sge []SGE) []ib.SGE { return *(*[]ib.SGE)(unsafe.Pointer(&sge)) }

func castReceives(r []Receive) []ib.RecvWR { return *(*[]ib.RecvWR)(unsafe.Pointer(&r)) }
