// Package checking compares the calls of a collective that the ranks of a communicator make. It has
// no input and no output. If calls are checked, package core sends their descriptions to one rank,
// which calls [Judge], and sends the result to all. Over shared memory calls are always compared.
// The ranks see only a few bits of each call there; see [Shape]. Its files:
//
//	call.go    the description of a call, and what two of them must have in common
//	judge.go   the comparison of all calls, and the text of its result
//	packed.go  calls in a few bits, and the text of what two of them differ in
//
// Descriptions come from other processes, so nothing is assumed of the lengths of their lists: blocks
// are compared only where a list has one for each rank. Packed calls may be any bits, since another
// process can have overwritten them.
//
// The package knows no error classes: these belong to package core, which passes those that it
// wants for each [Difference]. It holds no lock, and keeps nothing.
package checking
