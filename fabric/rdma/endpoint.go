package rdma

import (
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/closing"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/datagrams"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/verbs"
)

var _ fabric.Endpoint = (*endpoint)(nil)

// endpoint is everything that is stored about a peer, apart from its slots and queue pairs. Mind its size: there is one for
// each peer.
type endpoint struct {
	d     *domain
	peer  int
	ended atomic.Pointer[endReason] // the error of every call from now on; atomic, because Read and Write run in any goroutine

	addr        datagrams.Remote // the address of the peer, and where datagrams to it go
	conn        cm.Handshake
	teardown    *closing.Connection[*endpoint] // the last connection, while its last completions are waited for
	peerExpects uint32                         // number of the message that the peer expected next when the connection was made
	finalSeq    uint32                         // how many messages the peer had sent in total when it announced its close
	msgs        messages.Peer
	retry       connRetry
	attempt     attempt // to connect for the first time
	keepalive   liveness.State
	perRail     []railEndpoint // what WithRail returns, by rail
	avoidUntil  time.Duration  // until when avoided holds, by the clock
	avoided     cm.LaneSet     // the lanes that are left out of new connections
	peerClosing bool           // the peer has sent a DREQ datagram
	mtu         verbs.MTU      // the largest packets that reach the peer, 0 if those of the ports do
	inRing      bool           // is in domain.keepalives
	rtuDue      bool           // the RTU is still to be sent
	returned    uint8          // rails whose link has come up since the last connection, as bits
	disconnect  disconnectState

	// The following fields are guarded by domain.poster.Mu.
	requested bool
	lanes     posting.Lanes     // the queue pairs of the connection, and the transfers
	unacked   []posting.Request // messages to send again over the next connection
	leaving   *leaving          // the peer is handed over to another transport; changed only by the goroutine that calls Poll
}

func (e *endpoint) Close() error {
	if !e.ended.CompareAndSwap(nil, &errEndpointClosed) {
		return nil
	}
	d := e.d
	e.msgs.In.Discarding = true
	if e.peer == d.self {
		d.events.Loopback.Clear()
		return nil
	}
	d.poster.Mu.Lock()
	transferring := !e.lanes.Idle()
	d.poster.Mu.Unlock()
	switch {
	case e.conn.State == cm.StateEstablished && !transferring:
		e.sendControl(messages.DREQ)
	case e.conn.State == cm.StateIdle && e.teardown == nil && !transferring:
		e.release()
	default: // transfers end first, so that no device accesses memory after its owner has it back
		e.trySendCM(cm.DREQ, cm.QP{})
		e.declareBroken(errEndpointClosed.err)
	}
	return nil
}
