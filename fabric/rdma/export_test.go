package rdma

import "github.com/ibrun/ibrun/fabric"

// SetRetries sets how often the device retransmits over connections that are made from now on.
func SetRetries(d fabric.Domain, n uint8) { d.(*domain).cm.params.RetryCount = n }

// Connections returns how many connections to a peer have been made or begun.
func Connections(e fabric.Endpoint) int { return int(e.(*endpoint).conn.Epoch) }
