package ib

// Optional interfaces. Package verbs checks for them with a type assertion once, when an object is created. A provider
// implements those that its devices allow.

// HasSendRing is a QP whose send queue is a ring in memory that the process shares with the driver. Package verbs then posts into
// the ring with direct calls in place of Post and Ring, which do the same.
type HasSendRing interface {
	// SendRing returns the send queue, which is valid until Close. Its RingDoorbell may also be called later.
	SendRing() *SendRing
}

// HasRecvRing is a QP or an SRQ whose receive queue is a ring. Package verbs then posts into the ring in place of Recv.
type HasRecvRing interface {
	// RecvRing returns the receive queue, which is valid until Close, also after Modify.
	RecvRing() *RecvRing
}

// HasCompletionRing is a CQ that is a ring. Package verbs then polls the ring in place of Poll.
type HasCompletionRing interface {
	// CompletionRing returns the queue, which is valid until Close, also after Resize.
	CompletionRing() *CompletionRing
}

// HasAHNumber is an AH that has a number on the device.
type HasAHNumber interface {
	// AHNumber returns the number that requests name the handle by. It is never 0.
	AHNumber() uint32
}

// RKeySetter is an MW whose key the process chooses. A SendRing sets the new key when a bind is posted.
type RKeySetter interface {
	// SetRKey stores the key that RKey returns from then on.
	SetRKey(uint32)
}

// DmabufRegistrar is a PD that can register memory of a dma-buf. The device may still be unable to.
type DmabufRegistrar interface {
	// RegDmabuf registers length bytes of a dma-buf from offset on. Peers address them from iova on.
	RegDmabuf(fd int, offset, length, iova uint64, access uint32) (MR, error)
}

// EventReader is a Context or a Channel whose events must be read with ReadEvents, because its library counts them.
type EventReader interface {
	// ReadEvents does what read(2) on the descriptor would do: it returns whole events, or the error EAGAIN.
	ReadEvents(p []byte) (int, error)
}

// CompletionKeeper is a Context that says itself what other contexts do by the kind of the device.
type CompletionKeeper interface {
	// KeepsCompletions reports whether completions of a queue pair that was closed can still be polled, as with rxe.
	KeepsCompletions() bool
}

// DoorbellCaller is a Context that says itself what other contexts do by the kind of the device.
type DoorbellCaller interface {
	// DoorbellIsCall reports whether Ring makes a system call.
	DoorbellIsCall() bool
}
