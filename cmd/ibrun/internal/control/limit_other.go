//go:build !unix

package control

// pendingLimit returns how many connections may be in their handshake.
func pendingLimit() int { return maxPending }
