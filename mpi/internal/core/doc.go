// Package core is what package mpi does, without type parameters: processes, communicators, groups, sessions, messages, requests
// and collectives. Buffers are bytes, and [datatype.Kind] is the type of their elements. A front end adds the types and the
// conventions of a language: package mpi is the one for Go, in which
//
//	err := mpi.Send(world, x, 1, tag)
//
// is
//
//	err := c.Send(perf.Send, core.Bytes(x), 1, tag, proto.Standard)
//
// The calls here have the semantics, the concurrency and the ownership of buffers that package mpi documents. Their errors are
// [Error], and [Errors] and [Of] of these; a front end converts them to its own.
//
// Calls of the same communicator that a user may have checked (see Config.Check) exist twice for messages: the one named Checked
// sends the element kind and the source position along. [Comm.IsChecked] says which to call.
package core
