// Package mux is what the host and its guests say to each other: many streams over the one byte channel that a guest
// has, and on each stream a program that runs at the other end.
//
//	s := wire.NewSession(channel, wire.Host)
//	stream, err := s.Open()
//	...
//	code, err := wire.Run(stream, wire.Command{Args: []string{"uname", "-r"}}, nil, os.Stdout, os.Stderr)
//
// A stream has its own window, so one whose reader is slow holds up neither the others nor those that pass through
// it on their way to another guest. Output arrives byte for byte, standard output and standard error apart; the end
// of a stream before the exit code means that the other end is gone, and a program whose stream ends is killed.
package mux
