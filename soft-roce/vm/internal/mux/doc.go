// Package mux is the protocol between the host and its guests. It multiplexes many streams over the one byte channel of a guest.
// Each stream runs a program at the other end.
//
//	s := mux.NewSession(channel, mux.Host)
//	stream, err := s.Open()
//	...
//	code, err := mux.Run(stream, mux.Command{Args: []string{"uname", "-r"}}, nil, os.Stdout, os.Stderr)
//
// Each stream has its own window, so a slow reader of one stream does not block other streams. Output is not changed, and
// standard output and standard error are separate. If a stream ends before the exit code, the other end has failed. A
// program is killed when its stream ends.
package mux
