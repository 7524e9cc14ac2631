// Package notes has the notes of messages, with which ibrun --check finds errors in programs.
//
// A message of the program is preceded by a note: the type of its elements, and the source position
// of the send. The two belong together because the messages of a peer arrive in order. A receive
// has a note as well, which is compared when the receive is matched. At the end the processes
// compare how many messages with notes were sent and have arrived. Messages of collectives have
// none.
//
// note.go has a [Note], and compares notes. table.go has the [Table] of an engine: the notes of its
// requests, and those that are on their way. The package sends nothing. The caller of a Table holds
// the lock of the engine.
package notes
