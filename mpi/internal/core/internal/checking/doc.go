// Package checking compares the calls of a collective that the ranks of a communicator make, if
// calls are checked. It has no input and no output: package core sends the descriptions of the
// calls to one rank, which calls [Judge], and sends the result to all. Its files:
//
//	call.go   the description of a call, and what two of them must have in common
//	judge.go  the comparison of all calls, and the text of its result
//
// Descriptions come from other processes, so nothing is assumed of the lengths of their lists: a
// list of blocks that has not one for each rank is not looked at.
//
// The package knows no error classes: these belong to package core, which passes those that it
// wants for each [Difference]. It holds no lock, and keeps nothing.
package checking
