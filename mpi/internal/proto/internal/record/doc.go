// Package record is where an engine records what it does: its calls, and, if asked to, each
// message.
//
// recording.go has what the engine calls with its lock held. calls.go has what the program's calls
// use around several calls of the engine, without the lock.
//
// What is on its way between processes is counted: a launcher can then tell processes that wait for
// each other from a slow network. Messages that are not eager are counted here, also while
// recording is off: before they are posted, and when they have been handled, after what they cause.
// Elapsed is not counted, because it may be dropped. Eager ones are counted by perf.Link, while
// recording is on, immediately before or after they are sent, or handled: so a reader must compare
// two samples. A message in fragments counts as one, which arrives with the last.
//
// Which recorder is active is changed with the lock held. Calls read it without the lock when an
// operation begins, so no operation may begin meanwhile.
package record
