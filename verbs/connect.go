package verbs

// Params are the parameters of a connection. Start from [DefaultParams]: with the zero Params, the first lost packet is an
// error.
type Params struct {
	MTU          MTU   // 0 means the largest that both ports support
	Timeout      uint8 // see Attr
	RetryCount   uint8 // see Attr
	RNRRetry     uint8 // see Attr
	MinRNRTimer  uint8 // see Attr
	SL           uint8 // see AHAttr, also for the next three fields
	TrafficClass uint8
	HopLimit     uint8
	FlowLabel    uint32
	// Path is the number of the path on InfiniBand, where ports may have several LIDs (see Address.LMC). Both sides must use the
	// same number. Where a port has fewer LIDs, the number is taken modulo that.
	Path uint8
}

// DefaultParams returns parameters with which a dead peer is reported after about half a second to two seconds, and a missing
// receive of the peer is waited for forever.
func DefaultParams() Params {
	const maxRetries = 6 // with rxe, 7 means forever
	return Params{Timeout: 14, RetryCount: maxRetries, RNRRetry: 7, MinRNRTimer: 12, HopLimit: 64}
}

// Address returns the address that a peer needs to connect to this queue pair. It stays the same until the pair is reset, or the
// port gets another LID, or the pair is of type UD and the port loses the GID.
func (q *QP) Address() (Address, error) {
	const op = "query the address"
	if err := q.enter(op); err != nil {
		return Address{}, err
	}
	defer q.leave()
	q.control.Lock()
	defer q.control.Unlock()
	if q.cfg.Type == UD {
		q.ctx.ports.empty() // the program asks for the present address
	}
	return q.address()
}

// address is Address, from what is known of the port. The first call chooses the GID. A UD pair outlives changes of the table, so
// there every call does. The caller must hold control.
func (q *QP) address() (Address, error) {
	port, err := q.ctx.knownPort(q.cfg.Port)
	if err != nil {
		return Address{}, err
	}
	if !q.gidChosen || q.cfg.Type == UD {
		if q.local, err = q.ctx.knownGID(q.cfg.Port, q.cfg.GID, q.cfg.GIDIndex); err != nil {
			return Address{}, err
		}
		q.gidChosen = true
	}
	return Address{Type: q.cfg.Type, MTU: port.ActiveMTU, RDAtomic: uint8(min(q.ctx.caps.MaxQPRdAtom, 255)), LID: port.LID,
		LMC: port.LMC & maxLMC, NeedsGRH: port.GRHRequired(), QPN: q.num, PSN: q.psn, QKey: q.cfg.QKey, GID: q.local.Addr,
		GIDType: q.local.Type}, nil
}

// Connect brings an RC or UC queue pair to [StateRTS], connected to the peer with this address. The peer must do the same with
// the address of this pair. Connect may block until the peer's address is resolved.
func (q *QP) Connect(peer Address) error { return q.ConnectWith(peer, DefaultParams()) }

// ConnectWith is Connect with parameters.
func (q *QP) ConnectWith(peer Address, p Params) error {
	const op = "connect"
	if err := q.enter(op); err != nil {
		return err
	}
	defer q.leave()
	q.control.Lock()
	defer q.control.Unlock()
	own, err := q.address()
	if err != nil {
		return err
	}
	if q.cfg.Type == UD {
		return q.refuse(op, ErrInvalid, "a queue pair for datagrams is not connected; use Start, and Dest for each peer")
	}
	if peer.Type != own.Type {
		return q.refuse(op, ErrInvalid, "the peer's queue pair is of type %v; this one is of type %v", peer.Type, own.Type)
	}
	if p.MTU == 0 {
		p.MTU = min(own.MTU, peer.MTU)
	}
	if p.MTU.Bytes() == 0 || p.MTU > own.MTU || p.MTU > peer.MTU {
		return q.refuse(op, ErrInvalid, "path MTU %v; the local port supports %v and the peer's %v", p.MTU, own.MTU, peer.MTU)
	}
	ah, err := q.addressVector(op, own, peer, p)
	if err != nil {
		return err
	}
	rtr := Attr{State: StateRTR, AH: ah, MTU: p.MTU, DestQPN: peer.QPN, RQPSN: peer.PSN, MaxDestRDAtomic: own.RDAtomic,
		MinRNRTimer: p.MinRNRTimer}
	rts := Attr{State: StateRTS, Timeout: p.Timeout, RetryCount: p.RetryCount, RNRRetry: p.RNRRetry, SQPSN: own.PSN,
		MaxRDAtomic: uint8(min(q.ctx.caps.MaxQPInitRdAtom, uint32(peer.RDAtomic)))}
	need := func(from, to State) AttrMask { return AttrState | transitions[stateChange{from, to}].need[q.cfg.Type] }
	if err := q.modify(op, rtr, need(StateInit, StateRTR)); err != nil {
		q.ctx.ports.empty() // the port may have changed without an event, such as its MTU
		return err
	}
	return q.modify(op, rts, need(StateRTR, StateRTS))
}

// Start brings a UD queue pair to [StateRTS].
func (q *QP) Start() error {
	const op = "start"
	if err := q.enter(op); err != nil {
		return err
	}
	defer q.leave()
	q.control.Lock()
	defer q.control.Unlock()
	if q.cfg.Type != UD {
		return q.refuse(op, ErrInvalid, "a queue pair of type %v must be connected to a peer; use Connect", q.cfg.Type)
	}
	if err := q.modify(op, Attr{State: StateRTR}, AttrState); err != nil {
		return err
	}
	return q.modify(op, Attr{State: StateRTS, SQPSN: q.psn}, AttrState|AttrSQPSN)
}
