package rdma

import "github.com/ibrun/ibrun/verbs"

// A device answers a message with an RNR NAK (receiver not ready) if no receive is posted for it. The sender's device then
// waits and sends the message again, which costs a lot of time. This transport avoids RNR NAKs by credits, see
// internal/messages/credits.go: the receiver reserves a receive slot for every message that a peer may send, and posts it to the
// shared receive queue (SRQ), or without one to the queue of the connection, before it grants the credit. So a receive is always
// posted when a message arrives.
//
// Should the peer's device send an RNR NAK all the same, the device repeats the message, by default without limit. So a
// completion with [verbs.StatusRNRRetryExceeded] (IBV_WC_RNR_RETRY_EXC_ERR) is not expected. It is handled like any other
// connection error: the connection is made again, and messages that were not acknowledged are sent again, see reconnect.go.

// connParams returns the parameters of RC connections and address handles. The MTU is that of a connection.
//
// By default a device retransmits 7 times. Soft-RoCE takes 7 for no limit, so there the keepalive finds lost peers. Other devices
// give up after half a second or more, and then the connection is made again.
func (s *Settings) connParams() verbs.Params {
	p := verbs.DefaultParams()
	p.SL, p.TrafficClass = uint8(s.ServiceLevel), uint8(s.TrafficClass)
	p.Timeout, p.RetryCount, p.RNRRetry = uint8(s.Timeout), uint8(s.Retries), uint8(s.RNRRetries)
	return p
}
