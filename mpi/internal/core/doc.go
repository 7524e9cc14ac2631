// Package core implements package mpi without type parameters: processes, communicators, groups, sessions, messages, requests and
// collectives. Buffers are bytes, and a [datatype.Kind] names the type of their elements. A front end adds the types and the
// conventions of a language. Package mpi is the one for Go, in which
//
//	err := mpi.Send(world, x, 1, tag)
//
// is
//
//	err := c.Send(perf.Send, core.Bytes(x), 1, tag, proto.Standard)
//
// The calls have the semantics, the concurrency and the ownership of buffers that package mpi documents. Their errors are
// [Error], [ErrorList] and [RequestError]. A front end converts them to its own errors, and names the classes of those in
// [Config].
//
// Each call that sends or receives has a second form, whose name ends in Checked. It sends the element kind and the source
// position of the call with the message, so that the receiver can compare. A front end calls it if [Comm.IsChecked] reports true.
// The other form does not take the element kind, which costs some time to find out.
package core
