package verbs

import "github.com/ibrun/ibrun/verbs/internal/ib"

// MW is a memory window: a part of a memory region with its own access rights and key, which [QP.BindMW] sets. Its methods
// may be called by any goroutine at any time.
type MW struct {
	base
	ib  ib.MW
	typ MWType
}

// AllocMW allocates a memory window. It returns [ErrNotSupported] if the device has none.
func (pd *PD) AllocMW(t MWType) (*MW, error) {
	const op = "allocate a memory window"
	mw := &MW{base: pd.ctx.newBase(kindMW, &pd.base), typ: t}
	err := mw.open(op, mw.Close, func() (err error) {
		mw.ib, err = pd.ib.AllocMW(uint8(t))
		return err
	})
	if err != nil {
		return nil, err
	}
	return mw, nil
}

// BindMW queues the binding of a memory window to n bytes of a region from offset off on, and returns the key by which
// peers can name the window once the request has completed. Zero bytes unbind a window of type 1. The region needs the
// access right BindMW.
//
// A window of type 2 belongs to the pair: from here on [QP.Close] returns [ErrBusy] until the window is bound to another pair or
// closed, even if it was invalidated since, which only the device knows. With [RingDoorbell] an error of Ring comes together
// with a key.
func (q *QP) BindMW(id uint64, f Flags, mw *MW, mr *MR, off, n int, access Access) (rkey uint32, err error) {
	at := mr.Remote(off)
	mr.SGE(off, n) // panics if they are not in the region
	for _, b := range []*base{&mw.base, &mr.base} {
		if err := q.enterOther(b, OpBindMW, id); err != nil {
			return 0, err
		}
		defer b.leave()
	}
	var boundTo []*base
	if mw.typ == MWType2 {
		boundTo = []*base{&q.base}
	}
	if err := q.ctx.addRefs("bind a memory window", boundTo); err != nil {
		return 0, q.postError(OpBindMW, id, kindOf(err), "")
	}
	defer q.ctx.creating.Done()
	q.send.lock()
	// The key consists of an index and eight bits that change with each binding.
	next := mw.ib.RKey()&^0xff | (mw.ib.RKey()+1)&0xff
	q.send.wr.Imm = 0 // libibverbs refuses other values
	q.send.wr.Bind = ib.Bind{MW: mw.ib, RKey: next, MR: mr.ib, Addr: at.Addr, Length: uint64(n), Access: uint32(access)}
	err = q.postList(OpBindMW, id, f&^RingDoorbell, nil)
	q.send.wr.Bind = ib.Bind{} // the queue must not keep window and region alive
	q.send.unlock()
	if err != nil {
		q.ctx.dropRefs(boundTo)
		return 0, err
	}
	mw.setBoundTo(boundTo)
	if f&RingDoorbell != 0 {
		err = q.Ring()
	}
	return mw.ib.RKey(), err
}

// setBoundTo replaces the reference to the queue pair to which the window was bound before. The caller has added the reference
// to the new one.
func (mw *MW) setBoundTo(qp []*base) {
	c := mw.ctx
	c.mu.Lock()
	before := mw.uses[1:]
	mw.uses = append(mw.uses[:1:1], qp...)
	c.mu.Unlock()
	c.dropRefs(before)
}

// Close closes the window, whose key becomes invalid. A second Close does nothing.
func (mw *MW) Close() error { return mw.shutdown(mw.ib.Close) }

// RKey returns the key by which peers name the window, as of the last bind that was posted.
func (mw *MW) RKey() uint32 { return mw.ib.RKey() }
