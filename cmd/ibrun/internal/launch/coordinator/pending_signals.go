package coordinator

import (
	"slices"

	"golang.org/x/sys/unix"
)

// stopSignals stop and continue processes. Of those that wait only the last counts: the kernel also discards a SIGCONT that is
// pending when a process is stopped, and the reverse.
var stopSignals = []int{int(unix.SIGSTOP), int(unix.SIGTSTP), int(unix.SIGCONT)}

// addSignal appends the order to send a signal to those that wait, and returns them. A signal that already waits is not added
// again, as the kernel keeps only one of a kind for a process. A signal that stops or continues processes replaces all of these
// that wait. So no more signals wait than there are kinds. isSignal reports whether an order sends a signal.
func addSignal[T any](waiting []T, order T, signal int, isSignal func(order T, signal int) bool) []T {
	sends := func(signals ...int) func(T) bool {
		return func(o T) bool {
			return slices.ContainsFunc(signals, func(s int) bool { return isSignal(o, s) })
		}
	}
	switch {
	case slices.Contains(stopSignals, signal):
		waiting = slices.DeleteFunc(waiting, sends(stopSignals...))
	case slices.ContainsFunc(waiting, sends(signal)):
		return waiting
	}
	return append(waiting, order)
}
