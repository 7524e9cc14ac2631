package hw

import (
	"errors"
	"fmt"
)

// AccessError is the reason why this process cannot open a device.
type AccessError struct {
	Device string `json:"device"`
	File   string `json:"file,omitempty"` // the file that was tried, if there is one
	Reason string `json:"reason"`         // what is in the way, and what would help
	Err    error  `json:"-"`              // the system's error, such as syscall.EACCES
}

// asAccessError converts the error of opening a device to an AccessError.
func asAccessError(d *RDMADevice, err error) *AccessError {
	var o *AccessError
	if err != nil && !errors.As(err, &o) {
		o = &AccessError{Device: d.Name, Reason: err.Error(), Err: err}
	}
	return o
}

// Error returns the reason and the system's error.
func (o *AccessError) Error() string {
	return fmt.Sprintf("hw: cannot open %s: %s: %v", o.Device, o.Reason, o.Err)
}

// Unwrap returns the system's error.
func (o *AccessError) Unwrap() error { return o.Err }
