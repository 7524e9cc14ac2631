// Package shm is shared memory between processes: segments that leave no name behind, and rings with one writer and one reader.
//
// A [Segment] is an anonymous file, sealed against resizing once it has its size. It is sparse: [Segment.Map] allocates the pages
// of a range before it maps them, so running out of memory is an error here and never a SIGBUS later.
//
//	seg, err := shm.Create(1 << 20)
//	mem, err := seg.Map(0, shm.RingBytes(64<<10))
//	w, err := shm.NewWriter(mem, most)          // in one process
//	ok, err := w.Put(header, payload)           // false: full
//	w.Prefetch()                                // when idle: the next long record takes half the time
//	r, err := shm.NewReader(mem, most)          // in another process
//	data, err := r.Next()                       // nil: empty; valid until Release
//	r.Release()
//
// The files:
//
//	ring            the format of a ring; in ring_unsafe the two sides, Writer and Reader
//	copier          copies of long records: through the caches or past them
//	nontemporal     copies with non-temporal stores, which go past the caches
//	store           a store with release semantics
//	pause           the processor's pause instruction
//	segment         the memory itself
//
// Nothing here waits or makes a system call after set-up. Sleeping and waking are the caller's task.
package shm
