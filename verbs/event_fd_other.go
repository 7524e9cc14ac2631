//go:build !linux

package verbs

import "errors"

// eventFD has no implementation on this system, which has no RDMA devices.
type eventFD struct{}

func newEventFD(int, any) (*eventFD, error) { return nil, errors.ErrUnsupported }

func (*eventFD) read([]byte) (int, error)    { return 0, errors.ErrUnsupported }
func (*eventFD) tryRead([]byte) (int, error) { return 0, errors.ErrUnsupported }
func (*eventFD) interrupt()                  {}
func (*eventFD) resume()                     {}
func (*eventFD) Close() error                { return nil }
