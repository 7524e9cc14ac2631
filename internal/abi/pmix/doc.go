// Package pmix describes the C structs and the constants of libpmix, for callers that load the library at run time. It is data
// only, under the same rules as package abi/uverbs: the comments name the structs and fields of pmix_common.h, a test compares,
// padding is written out. Versions 3 to 6 of the library agree in all of it. Later versions may append fields to the structs, so
// callers pass no arrays of them.
//
// A C pointer is a uintptr here, also if it points to Go memory: the code that fills in a struct must keep that memory alive
// and in place for as long as the library may read it.
package pmix
