package devices

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
)

// Error says why a device cannot be used. It wraps [fabric.ErrNotSupported], so another transport
// is taken.
type Error struct {
	Device     string // its name
	Capability string // what it lacks: an attribute such as max_qp_rd_atom, or a kind of object
	Reason     string // empty if Err says it
	Err        error  // the error of the device, or nil
}

// Error returns the device, the capability, the reason and the remedy.
func (e *Error) Error() string {
	s := fmt.Sprintf("fabric/rdma: device %s cannot be used: %s", e.Device, e.Capability)
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + "; choose another device (IBRUN_RDMA_DEVICES) or another transport"
}

// Unwrap returns fabric.ErrNotSupported and the error of the device.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{fabric.ErrNotSupported}
	}
	return []error{fabric.ErrNotSupported, e.Err}
}

// PartitionError says that two InfiniBand ports are in no common partition in which one of them at
// least is a full member. It wraps [fabric.ErrNotSupported].
type PartitionError struct {
	Here, There []uint16 // the partition keys that this process and the peer may use
}

// Error names the partitions of both ports.
func (e *PartitionError) Error() string {
	return fmt.Sprintf("%v: no InfiniBand partition in common of which one process is a full member: this process is in %s; "+
		"the peer in %s (IBRUN_RDMA_PKEY chooses one)", fabric.ErrNotSupported, cm.KeyNames(e.Here), cm.KeyNames(e.There))
}

// Unwrap returns fabric.ErrNotSupported.
func (e *PartitionError) Unwrap() error { return fabric.ErrNotSupported }

// SetUpError is the error of a call that sets up a connection. Whatever its reason is, the device
// refuses the connection.
type SetUpError struct{ Err error }

// Error returns the text of Err.
func (e *SetUpError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *SetUpError) Unwrap() error { return e.Err }

// IsRefusal reports whether a connection has ended because a device has refused it: whether the
// error is or wraps a [*SetUpError].
func IsRefusal(err error) bool {
	var s *SetUpError
	return errors.As(err, &s)
}
