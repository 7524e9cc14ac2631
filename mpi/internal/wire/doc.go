// Package wire is the format of the messages between engines: which kinds there are, and how the
// header of each is written and read. Package proto says when a message is sent, and what it means.
//
// A message has a header and, for some kinds, a payload. The header is an [Envelope] and up to five
// words. [Header] writes it, and [Parse] reads a message. The envelope of an eager message, which is
// its whole header, is written by [Envelope.Put] alone.
//
// The format is that of a release: all processes of a job have the same. A test compares the bytes
// of each kind. Messages come from other processes, so Parse refuses what no engine sends.
//
// The package has no state.
package wire
