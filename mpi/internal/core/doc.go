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
// A message is sent from a [datatype.Buffer] and received into one, which describes numbers, structs
// and derived data alike. Where calls are checked its elements travel with the message, with the source
// position of the call, so that the receiver can compare. The calls that programs make most exist for
// bytes as well: Send, Isend, Recv, Irecv and Sendrecv. They check nothing, and do not need the kind of
// the elements, which costs some time to find out. A front end calls them for numbers unless
// [Comm.IsChecked] reports true; see [IsPlain].
package core
