// Package sleep lets the caller of Poll sleep until a completion arrives, a timer expires, or
// another goroutine wakes it. It knows completion queues, completion channels and time, and neither
// peers nor what the completions are of.
//
// # No lost wake-up
//
// The owner calls [Sleeper.Begin] and [Sleeper.Notify], looks for work once more, and sleeps only
// if there is none, by [Sleeper.Until]. A completion that arrives before Notify is found by that
// look; one that arrives later makes the file descriptor readable. Another goroutine that begins
// work adds it first and then asks [Sleeper.Armed]: either it finds that the caller may sleep, and
// calls [Sleeper.Wake], or the owner finds the work, since Begin comes before it looks.
//
// Completions of sends are reported only if the owner waits for them: most need no reaction, and
// each report is an interrupt.
//
// # Files
//
//	sleeper.go      which completion queues report their next completion
//	waker_linux.go  the file descriptor: an epoll set of the completion channels and a timer
//	waker_other.go  other systems, on which no domain is opened
//
// # Locks
//
// [Sleeper.Armed] and [Sleeper.Wake] may be called by any goroutine. Everything else belongs to the
// goroutine that calls Poll. The timer has a lock of its own. While it is held, only system calls are
// made.
package sleep
