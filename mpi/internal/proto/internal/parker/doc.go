// Package parker has the places where the goroutine of an engine that polls sleeps while nothing
// happens: the descriptor of a transport (poll_linux.go), or a channel (parker.go).
//
// A goroutine calls Park without the lock of its engine. One goroutine at a time may be in Park.
package parker
