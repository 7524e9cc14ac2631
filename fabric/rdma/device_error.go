package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
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
func (e *DeviceError) Unwrap() []error {
	if e.Err == nil {
		return []error{fabric.ErrNotSupported}
	}
	return []error{fabric.ErrNotSupported, e.Err}
}

// lacks returns a DeviceError for err, nil for nil. capability is what could not be created.
func (r *rail) lacks(capability string, err error) error {
	if err == nil {
		return nil
	}
	return &DeviceError{Device: r.dev.Name(), Capability: capability, Err: err}
}
