package messages

// Peer is the state of the messages with one peer, apart from those that it has not acknowledged.
type Peer struct {
	Number int32 // of the peer
	Held   int32 // received messages that are queued or borrowed
	In     Inbound
	Out    Outbound
	queue  *Queue // of the connection; nil without a connection or with an SRQ
}

// Header returns the header of the next message.
func (p *Peer) Header(k Kind) Header {
	return Header{Seq: p.Out.Sent, Grant: p.In.Grant(), GrantSeen: p.Out.Grant, Kind: k}
}

// Posted returns how many slots are posted to the peer's own receive queue.
func (p *Peer) Posted() int {
	if p.queue == nil {
		return 0
	}
	return p.queue.Posted()
}

// EndReceives is called when the connection begins to be closed: its receive queue takes no more
// slots.
func (p *Peer) EndReceives() {
	if p.queue != nil {
		p.queue.closing = true
	}
}
