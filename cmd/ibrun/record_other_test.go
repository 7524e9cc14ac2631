//go:build !linux

package main

import "errors"

// record needs ibrun, which starts jobs on Linux.
func record() error { return errors.ErrUnsupported }

func talk([]string) error { return errors.ErrUnsupported }
