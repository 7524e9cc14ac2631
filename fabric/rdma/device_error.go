package rdma

import (
	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
)

// DeviceError says why a device cannot be used. It wraps [fabric.ErrNotSupported], so another transport is taken.
type DeviceError struct {
	Device     string // its name
	Capability string // what it lacks: an attribute such as max_qp_rd_atom, or a kind of object
	Reason     string // empty if Err says it
	Err        error  // the error of the device, or nil
}

// Error returns the device, the capability, the reason and the remedy.
func (e *DeviceError) Error() string {
	return (*devices.Error)(e).Error()
}

// Unwrap returns fabric.ErrNotSupported and the error of the device.
func (e *DeviceError) Unwrap() []error {
	return (*devices.Error)(e).Unwrap()
}

// PartitionError says that two InfiniBand ports are in no common partition in which one of them at
// least is a full member. It wraps [fabric.ErrNotSupported].
type PartitionError struct {
	Here, There []uint16 // the partition keys that this process and the peer may use
}

// Error names the partitions of both ports.
func (e *PartitionError) Error() string { return (*devices.PartitionError)(e).Error() }

// Unwrap returns fabric.ErrNotSupported.
func (e *PartitionError) Unwrap() error { return fabric.ErrNotSupported }

// exported returns an error of package devices as the type of this package that has its fields. It must be the error itself, or
// wrapped in a devices.SetUpError, and not in another.
func exported(err error) error {
	switch e := err.(type) {
	case *devices.Error:
		return (*DeviceError)(e)
	case *devices.PartitionError:
		return (*PartitionError)(e)
	case *devices.SetUpError:
		return &devices.SetUpError{Err: exported(e.Err)}
	}
	return err
}
