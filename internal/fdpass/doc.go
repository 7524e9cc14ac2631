// Package fdpass passes descriptors over Unix sockets, and gets rid of received ones that are not wanted.
//
// A received descriptor is foreign: its sender chose what it is. Closing it may block, for example a TCP socket with SO_LINGER
// and unsent data, or a file of a file system whose server does not answer. So [Discard] never closes such a descriptor in the
// calling goroutine.
package fdpass
