package coll

//go:noescape
func stream(dst, src []byte)
