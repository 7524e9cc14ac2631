// Package rxe drives the kernel's Soft-RoCE devices without a library. Objects are made by commands, which package uverbs
// sends; requests and completions travel in rings that the driver and the program both map, one writing and the other
// reading.
//
//	p := rxe.New()
//	ctx, err := p.Open(ib.Device{Name: "rxe0", Uverbs: "uverbs0", Dev: 231<<8 | 192})
//
// A ring belongs to two sides, each of which writes one index and reads the other's. So the slots before an index are
// written before the index is, and read after it: sync/atomic on our side, release and acquire on the kernel's
// (smp_store_release and smp_load_acquire in rxe_queue.h). What the kernel says of a ring, its size and the length of
// slots, is checked when it is mapped, and indices are masked, so that no mistake of the driver leads outside of the
// mapping.
//
// Post fills a slot, Publish moves the index over all that was posted, and Doorbell is the system call that has the driver
// look. Up to Linux 6.3 it sends within that call. Receives need none of it: the driver looks when a packet arrives.
package rxe
