//go:build !race

package coll

// stream copies src to dst, which is as long, past the caches. It is for memory that another core reads next.
//
//go:noescape
func stream(dst, src []byte)
