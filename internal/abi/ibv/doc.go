// Package ibv describes the C structs of libibverbs, for callers that load the library at run time. It is data only, under the
// same rules as package abi/uverbs: the comments name the structs and fields of infiniband/verbs.h, a test compares, padding is
// written out. The numbers in them (statuses, opcodes, flags, states, masks) are the kernel's, and named in abi/uverbs.
//
// A C pointer is a uintptr here, also if it points to Go memory: the code that fills in a struct must keep that memory alive
// and in place for as long as the library may read it.
package ibv
