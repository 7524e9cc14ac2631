//go:build !linux

package verbs

import "errors"

// descriptor would be one of the kernel's event descriptors. There are no devices on this system, so none is ever made.
type descriptor struct{}

func newDescriptor(int, any) (*descriptor, error) { return nil, errors.ErrUnsupported }

func (*descriptor) read([]byte) (int, error) { return 0, errors.ErrUnsupported }
func (*descriptor) try([]byte) (int, error)  { return 0, errors.ErrUnsupported }
func (*descriptor) interrupt()               {}
func (*descriptor) resume()                  {}
func (*descriptor) Close() error             { return nil }
