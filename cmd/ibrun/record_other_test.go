//go:build !linux

package main

import "errors"

// record needs ibrun, which starts jobs only on Linux.
func record([]string) error { return errors.ErrUnsupported }

func talk([]string) error { return errors.ErrUnsupported }

// hang and work need it as well.
func checked([]string) error { return errors.ErrUnsupported }

func whisper(string) error { return errors.ErrUnsupported }

func hang(string) error { return errors.ErrUnsupported }

func work() error { return errors.ErrUnsupported }

func stream(string) error { return errors.ErrUnsupported }

func notify(string) error { return errors.ErrUnsupported }

func brief() error { return errors.ErrUnsupported }

func runLong([]string) error { return errors.ErrUnsupported }

func otherVersion() error { return errors.ErrUnsupported }

func hearLeft() error { return errors.ErrUnsupported }

func endBy(string, string) error { return errors.ErrUnsupported }

func sum([]string) error { return errors.ErrUnsupported }

func strangers() int { return 1 }

func relay() int { return 1 }
