package verbs

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/internal/abi/uverbs"
)

// Status is the result of a request. All but StatusSuccess are errors, which [errors.Is] finds in a [*CompletionError].
type Status uint32

// Statuses of completions.
const (
	StatusSuccess            = Status(uverbs.WCSuccess)
	StatusLocalLength        = Status(uverbs.WCLocLenErr)      // the message is longer than the receive, or than the device supports
	StatusLocalQPOperation   = Status(uverbs.WCLocQPOpErr)     // the device found the request invalid
	StatusLocalEEC           = Status(uverbs.WCLocEECOpErr)    // of transports that are no longer used
	StatusLocalProtection    = Status(uverbs.WCLocProtErr)     // an SGE is outside its memory region, or has a wrong local key
	StatusFlushed            = Status(uverbs.WCWRFlushErr)     // not executed: the queue pair had failed
	StatusMWBind             = Status(uverbs.WCMWBindErr)      // a memory window could not be bound
	StatusBadResponse        = Status(uverbs.WCBadRespErr)     // the peer's response is invalid
	StatusLocalAccess        = Status(uverbs.WCLocAccessErr)   // receives only: a WRITE with immediate of the peer was not allowed
	StatusRemoteInvalid      = Status(uverbs.WCRemInvReqErr)   // the peer refused the request as invalid
	StatusRemoteAccess       = Status(uverbs.WCRemAccessErr)   // wrong remote key, range or rights
	StatusRemoteOperation    = Status(uverbs.WCRemOpErr)       // the peer failed while it executed the request
	StatusRetryExceeded      = Status(uverbs.WCRetryExcErr)    // the peer does not respond
	StatusRNRRetryExceeded   = Status(uverbs.WCRNRRetryExcErr) // the peer had no receive posted
	StatusLocalRDD           = Status(uverbs.WCLocRDDViolErr)  // of transports that are no longer used
	StatusRemoteInvalidRD    = Status(uverbs.WCRemInvRDReqErr) // the same
	StatusRemoteAborted      = Status(uverbs.WCRemAbortErr)
	StatusInvalidEECN        = Status(uverbs.WCInvEECNErr)     // of transports that are no longer used
	StatusInvalidEEC         = Status(uverbs.WCInvEECStateErr) // the same
	StatusFatal              = Status(uverbs.WCFatalErr)
	StatusResponseTimeout    = Status(uverbs.WCRespTimeoutErr)
	StatusGeneral            = Status(uverbs.WCGeneralErr)
	StatusTagMatching        = Status(uverbs.WCTMErr)
	StatusTagMatchIncomplete = Status(uverbs.WCTMRndvIncomplete)
)

var statusNames = [...]string{"success", "local length error", "local queue pair operation error", "local EE context error",
	"local protection error", "flushed", "memory window bind error", "bad response", "local access error", "remote invalid request",
	"remote access error", "remote operation error", "retries exceeded: the peer does not respond",
	"receiver not ready, retries exceeded", "local RDD violation", "remote invalid RD request", "remote aborted", "invalid EECN",
	"invalid EE context state", "fatal error", "response timeout", "general error", "tag matching error",
	"tag matching rendezvous incomplete"}

// String returns the status in words.
func (s Status) String() string { return nameIn(statusNames[:], uint64(s), "status") }

// Error returns the same as String.
func (s Status) Error() string { return s.String() }

// WC is a work completion: one request has succeeded or failed. If it failed, only ID, Status, VendorErr and QPN are valid.
type WC struct {
	ID        uint64 // of the request
	Status    Status
	Opcode    WCOpcode
	VendorErr uint32 // device-specific error number
	Len       uint32 // bytes received or read
	imm       uint32 // immediate data in network order, or a key in host order
	QPN       uint32 // number of the queue pair
	SrcQP     uint32 // datagrams only: number of the sender's queue pair
	Flags     WCFlags
	PKeyIndex uint16
	SLID      uint16
	SL        uint8
	PathBits  uint8
	_         [2]uint8
}

// Imm returns the immediate data. It is valid if Flags&WithImm is set.
func (w *WC) Imm() uint32 { return swap32(w.imm) }

// Invalidated returns the key that the peer invalidated. It is valid if Flags&WithInvalidate is set.
func (w *WC) Invalidated() uint32 { return w.imm }

// Err returns nil if the request succeeded, and a [*CompletionError] if not.
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

// Error returns the numbers of queue pair and request, and the status.
func (e *CompletionError) Error() string {
	s := fmt.Sprintf("verbs: queue pair %#x, request %d: %v", e.QPN, e.ID, e.Status)
	if e.VendorErr != 0 {
		s += fmt.Sprintf(" (vendor error %#x)", e.VendorErr)
	}
	return s
}

// Unwrap returns the status.
func (e *CompletionError) Unwrap() error { return e.Status }

// swap32 converts a number between host order and network order.
func swap32(v uint32) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return binary.NativeEndian.Uint32(b[:])
}
