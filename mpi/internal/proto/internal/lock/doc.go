// Package lock has the mutual exclusion lock of an engine.
//
// It differs from sync.Mutex in three ways. Its holder can ask whether others wait for it, so that
// a goroutine that polls while holding it releases it only then. A goroutine that has slept gets it
// next, although its holder unlocks it and locks it again at once. Tests can decide which goroutine
// gets it.
//
// An engine takes the lock for each message. So Lock and Unlock are inlined, and take one atomic
// instruction each while nobody else wants the lock.
//
// The lock has no owner. A goroutine must not lock it twice.
package lock
