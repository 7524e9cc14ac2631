// Package rxe drives the kernel's Soft-RoCE devices without a library. It creates objects with commands, which package uverbs
// sends. Requests and completions are transferred in rings of shared memory that the driver and the process map, see
// ib.SendRing, ib.RecvRing and ib.CompletionRing.
//
//	p := rxe.New()
//	ctx, err := p.Open(ib.Device{Name: "rxe0", Uverbs: "uverbs0", Dev: 231<<8 | 192})
//
// Post fills a slot of the send queue. Publish stores the index behind all posted requests, and the doorbell is the system call
// in which the driver reads the queue. Up to Linux 6.3 it sends within that call. Receives need no doorbell: the driver reads the
// receive queue when a packet arrives.
package rxe
