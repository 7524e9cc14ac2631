// Package mem is the transport between peers of one process: each peer is a goroutine, and messages cross in rings
// in the Go heap. It needs nothing of the operating system, and the race detector sees all that it does.
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
// A world of one sends to itself this way, tests run many peers in one process, and [Hub.Fail] lets one of them die.
//
// # How a message crosses
//
// From each peer to each peer it sends to leads a lane: a ring with one writer and one reader. A message is copied into
// the ring once, and lent from there until the reader's next Poll. The reader finds the lanes that hold something by a
// bitmap in its inbox, so peers that are silent cost it nothing. A lane is made when it is connected and its ring with
// the first message, so memory grows with the pairs that talk.
//
// Nothing waits on a lock. Where one side sets a flag that the other may clear at the same moment (a lane's bit, a
// reader that goes to sleep), each side stores first and looks at the other's word second; as sync/atomic is
// sequentially consistent, at least one of them sees the other.
package mem
