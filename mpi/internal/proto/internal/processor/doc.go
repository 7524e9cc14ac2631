// Package processor yields the processor of a goroutine that polls to other processes.
//
// A [Yielder] measures its yields. If they take most of the time, because a program computes on the
// processor meanwhile, it says so, and the goroutine sleeps in place of yielding. How often a
// goroutine yields before it sleeps for want of messages is decided in package proto: by
// yieldsBeforeSleep in wait.go.
//
// A Yielder has a mutex of its own, which is taken only by slow yields and in a pause. It may be
// used with or without the lock of an engine.
package processor
