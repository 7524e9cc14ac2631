//go:build !linux

package sockets

// Serve needs Linux.
func Serve(Test) error { return ErrNotSupported }

// Call needs Linux.
func Call(Test) (map[int]float64, error) { return nil, ErrNotSupported }
