// Package shm holds what processes need to talk through memory they share: segments that leave no name behind, and
// rings with one writer and one reader.
//
// A [Segment] is an anonymous file, sealed against resizing once it has its size. It is sparse: [Segment.Map] allocates
// the pages of a range before it maps them, so running out of memory is an error here and never a SIGBUS later.
//
//	seg, err := shm.Create(1 << 20)
//	mem, err := seg.Map(0, shm.RingBytes(64<<10))
//	w := shm.NewWriter(mem, most)               // in one process
//	ok, err := w.Put(header, payload)           // false: full
//	w.Fetch()                                   // when idle: the next long record takes half the time
//	r := shm.NewReader(mem, most)               // in another
//	data, err := r.Next()                       // nil: empty; lent until Release
//	r.Release()
//
// Nothing here waits or makes a system call after set-up; sleeping and waking belong to the caller.
package shm
