// Package mem is the transport between peers of one process: each peer is a goroutine, and messages are copied through rings
// in the Go heap. It needs nothing from the operating system, and the race detector sees every access.
//
//	hub := mem.NewHub(2)
//	for self := range 2 {
//		go func() {
//			d, err := hub.Transport().Open(ctx, &fabric.Config{Self: self, Size: 2})
//			ep, err := d.Connect(1-self, nil)
//			err = ep.Send(header, payload)
//			...
//		}()
//	}
//
// A job of one process sends to itself over it. Tests run many peers in one process, and [Hub.Fail] makes one of them fail.
//
// # Path of a message
//
// Each sender has a lane to each of its receivers: a ring with one writer and one reader. A message is copied into the ring
// once, and is valid there until the reader's next Poll. The reader finds the lanes with messages by a bitmap in its inbox,
// so silent peers cost it nothing. A lane is allocated when it is connected, its ring with the first message, so memory grows
// with the number of pairs that communicate.
//
// The message path takes no lock. If one side sets a flag that the other may clear at the same time (a lane's bit, the flag of a
// reader that goes to sleep), each side stores its own word first and loads the other's word second. As sync/atomic is
// sequentially consistent, at least one of them sees the other's store.
package mem
