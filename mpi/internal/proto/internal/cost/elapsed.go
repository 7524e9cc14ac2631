package cost

import "time"

// Elapsed is what one side measures of a message.
type Elapsed struct {
	Marks uint64 // of the message; 0: it is not measured
	// Began is when the first header arrived at the receiver, and 0 if the message was unexpected.
	// At the sender it is when the RTS was prepared.
	Began time.Duration
	Spent time.Duration // how long this process has copied
	Moved int           // how many bytes
}

// Begin returns the time before some bytes are copied, by the clock now, if the message is
// measured.
func (x *Elapsed) Begin(now func() time.Duration) time.Duration {
	if x.Marks == 0 {
		return 0
	}
	return now()
}

// End must be called when n bytes were copied. began is the result of Begin.
func (x *Elapsed) End(now func() time.Duration, began time.Duration, n int) {
	if x.Marks != 0 {
		x.Spent += now() - began
		x.Moved += n
	}
}
