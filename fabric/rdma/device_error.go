package rdma

import "github.com/ibrun/ibrun/fabric/rdma/internal/devices"

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

// lacks returns a DeviceError for err, nil for nil. capability is what could not be created.
func (r *rail) lacks(capability string, err error) error {
	if err == nil {
		return nil
	}
	return &DeviceError{Device: r.dev.Name(), Capability: capability, Err: err}
}

// exported returns an error of package devices as the type of this package that has its fields. It must be the error itself, not
// one that wraps it.
func exported(err error) error {
	if e, ok := err.(*devices.Error); ok {
		return (*DeviceError)(e)
	}
	return err
}
