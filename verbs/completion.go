package verbs

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/internal/abi/uverbs"
)

// Status is how a request ended. All but StatusSuccess are errors, which [errors.Is] finds in a [*CompletionError].
type Status uint32

// Statuses of completions.
const (
	StatusSuccess            = Status(uverbs.WCSuccess)
	StatusLocalLength        = Status(uverbs.WCLocLenErr)      // a message longer than the receive, or than the device takes
	StatusLocalQPOperation   = Status(uverbs.WCLocQPOpErr)     // the device could not make sense of the request
	StatusLocalEEC           = Status(uverbs.WCLocEECOpErr)    // of transports that are not used any more
	StatusLocalProtection    = Status(uverbs.WCLocProtErr)     // an SGE outside of its memory region, or a wrong local key
	StatusFlushed            = Status(uverbs.WCWRFlushErr)     // not carried out: the queue pair had failed
	StatusMWBind             = Status(uverbs.WCMWBindErr)      // a memory window could not be bound
	StatusBadResponse        = Status(uverbs.WCBadRespErr)     // the peer's answer made no sense
	StatusLocalAccess        = Status(uverbs.WCLocAccessErr)   // of receives: a peer's write with immediate was not allowed
	StatusRemoteInvalid      = Status(uverbs.WCRemInvReqErr)   // the peer refused the request as invalid
	StatusRemoteAccess       = Status(uverbs.WCRemAccessErr)   // wrong remote key, range or rights
	StatusRemoteOperation    = Status(uverbs.WCRemOpErr)       // the peer failed while it carried out the request
	StatusRetryExceeded      = Status(uverbs.WCRetryExcErr)    // the peer does not answer
	StatusRNRRetryExceeded   = Status(uverbs.WCRNRRetryExcErr) // the peer had no receive posted
	StatusLocalRDD           = Status(uverbs.WCLocRDDViolErr)  // of transports that are not used any more
	StatusRemoteInvalidRD    = Status(uverbs.WCRemInvRDReqErr) // the same
	StatusRemoteAborted      = Status(uverbs.WCRemAbortErr)
	StatusInvalidEECN        = Status(uverbs.WCInvEECNErr)     // of transports that are not used any more
	StatusInvalidEEC         = Status(uverbs.WCInvEECStateErr) // the same
	StatusFatal              = Status(uverbs.WCFatalErr)
	StatusResponseTimeout    = Status(uverbs.WCRespTimeoutErr)
	StatusGeneral            = Status(uverbs.WCGeneralErr)
	StatusTagMatching        = Status(uverbs.WCTMErr)
	StatusTagMatchIncomplete = Status(uverbs.WCTMRndvIncomplete)
)

var statusNames = [...]string{"success", "local length error", "local queue pair operation error", "local EE context error",
	"local protection error", "flushed", "memory window bind error", "bad response", "local access error", "remote invalid request",
	"remote access error", "remote operation error", "retries exceeded: the peer does not answer",
	"receiver not ready, retries exceeded", "local RDD violation", "remote invalid RD request", "remote aborted", "invalid EECN",
	"invalid EE context state", "fatal error", "response timeout", "general error", "tag matching error",
	"tag matching rendezvous incomplete"}

// String says in words how the request ended.
func (s Status) String() string { return nameIn(statusNames[:], uint64(s), "status") }

// Error is String.
func (s Status) Error() string { return s.String() }

// WC is a completion: one request is done, in one way or another. Of one that failed only ID, Status, VendorErr and QPN mean
// anything.
type WC struct {
	ID        uint64 // what the request was posted with
	Status    Status
	Opcode    WCOpcode
	VendorErr uint32 // what the device adds to an error, in its own numbers
	Len       uint32 // bytes received, or read
	imm       uint32 // as on the wire, or a key in host order
	QPN       uint32 // number of the queue pair
	SrcQP     uint32 // of datagrams: number of the sender's queue pair
	Flags     WCFlags
	PKeyIndex uint16
	SLID      uint16
	SL        uint8
	PathBits  uint8
	_         [2]uint8
}

// Imm is the immediate data that arrived, with Flags&WithImm set.
func (w *WC) Imm() uint32 { return wire32(w.imm) }

// Invalidated is the key that the peer invalidated, with Flags&WithInvalidate set.
func (w *WC) Invalidated() uint32 { return w.imm }

// Err is nil for a request that succeeded, and a [*CompletionError] for any other.
func (w *WC) Err() error {
	if w.Status == StatusSuccess {
		return nil
	}
	return &CompletionError{Status: w.Status, QPN: w.QPN, ID: w.ID, VendorErr: w.VendorErr}
}

// CompletionError is a request that failed. [errors.Is] finds its status.
type CompletionError struct {
	Status    Status
	QPN       uint32
	ID        uint64
	VendorErr uint32
}

// Error names queue pair, request and status.
func (e *CompletionError) Error() string {
	s := fmt.Sprintf("verbs: queue pair %#x, request %d: %v", e.QPN, e.ID, e.Status)
	if e.VendorErr != 0 {
		s += fmt.Sprintf(" (vendor error %#x)", e.VendorErr)
	}
	return s
}

// Unwrap returns the status.
func (e *CompletionError) Unwrap() error { return e.Status }

// wire32 turns a number into network order, and back.
func wire32(v uint32) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return binary.NativeEndian.Uint32(b[:])
}
