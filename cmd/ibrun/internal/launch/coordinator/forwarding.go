package coordinator

import (
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// maxUnreadInput is how many bytes of standard input the node of rank 0 keeps. What the rank has
// read counts until the coordinator may have sent as much in its place.
const maxUnreadInput = protocol.InputWindow + 2*protocol.MaxInputChunk

// newForwarding returns what the coordinator sends to the nodes that it has started, so that they
// forward their output to these streams.
func newForwarding(s console.Streams) *protocol.Forwarding {
	return &protocol.Forwarding{Terminals: [2]bool{console.IsTerminal(s.Out), console.IsTerminal(s.Err)}}
}
