package rdma

import "github.com/ibrun/ibrun/fabric"

// SetRetries is how often the device sends again what is not acknowledged, over connections that are yet to be made.
func SetRetries(d fabric.Domain, n uint8) { d.(*domain).params.RetryCount = n }

// Connections is how many connections to a peer have been made or begun.
func Connections(e fabric.Endpoint) int { return int(e.(*endpoint).conn.epoch) }
