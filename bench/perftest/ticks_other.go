//go:build !amd64

package perftest

func ticks() uint64 { return ticksGo() }
