// Package closing decides which connections of a domain are to be closed, why, and when that may be
// done. It does no input or output.
//
// A failure is only recorded where it is noticed ([List.Fail]). The owner handles it later, and
// begins to close the connection ([List.Begin]): it makes the queue pairs fail, and the device then
// flushes what it has not carried out. The last completions arrive while the owner goes on polling.
// Once they have arrived, or have not for too long, [List.Next] returns the connection, and the
// owner closes its queue pairs ([List.Finish]).
//
//	failure.go: failures that were noticed, and which of them count
//	list.go:    the connections that are being closed
//
// There are no locks. Everything belongs to the goroutine that polls the domain.
package closing
