// Package outbox writes to streams whose reader may be slow or stopped, without making the sender wait.
//
//	w := outbox.New(func(data []byte) error { _, err := conn.Write(data); return err })
//	w.Queue(order)       // returns immediately
//	w.Flush(time.Second) // blocks until everything is written, for at most a second
//
// ibrun and its agent control a job in one goroutine each. That goroutine must never wait for a terminal, a pipe or a socket:
// otherwise a reader that has stopped would make ibrun deaf to the signals of its user.
//
// What was written is dropped: the stream is a file of this machine, whose end is the end of its
// reader. Messages between machines are kept until they are acknowledged, which package control
// does itself.
package outbox
