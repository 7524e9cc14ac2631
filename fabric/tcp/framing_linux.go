package tcp

import (
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// framing makes the headers of frames that are sent.
type framing struct {
	checked  bool   // frames of this connection, or of the last one, have checksums, and so have those in output.kept
	received uint64 // position of this session: bytes of messages that have been received, and of the shutdown
	ackSent  uint64 // the value of received in the last frame that was made
}

// header writes the header of a frame to b. It acknowledges what has been received.
func (f *framing) header(b []byte, k kind, length int, sum uint32) {
	frame{k, length, uint32(f.received), sum}.put(b, f.checked)
	f.ackSent = f.received
}

// sum returns the checksum of the body of a frame, or 0 if there are none.
func (f *framing) sum(body []byte) uint32 {
	if !f.checked {
		return 0
	}
	return addSum(0, body)
}

// sumOfMemory returns the checksum of registered memory, or 0 if there are none. If the memory is not
// mapped any more, the error is EFAULT, as that of a system call.
func (f *framing) sumOfMemory(b []byte) (sum uint32, errno unix.Errno) {
	if !f.checked {
		return 0, 0
	}
	defer recoverFault(debug.SetPanicOnFault(true), &errno)
	return addSum(0, b), 0
}

// recoverFault is deferred: it makes an access to memory that is not mapped the error EFAULT, as that of a system call. before is
// what debug.SetPanicOnFault(true) has returned.
func recoverFault(before bool, errno *unix.Errno) {
	debug.SetPanicOnFault(before)
	if x := recover(); x != nil {
		if _, ok := x.(interface{ Addr() uintptr }); !ok {
			panic(x)
		}
		*errno = unix.EFAULT
	}
}
