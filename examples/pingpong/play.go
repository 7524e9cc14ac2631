package main

import (
	"context"
	"fmt"

	"github.com/ibrun/ibrun/verbs"
)

// client is the ID of the sends of the client, which are of no slot.
const client = 1 << 32

// play has the message go to and fro. The client begins, once for each pair; the server sends back what it receives.
func (e *endpoint) play(ctx context.Context) error {
	if e.o.host != "" {
		for i := range min(len(e.pairs), e.o.iters) {
			if err := e.ping(i); err != nil {
				return err
			}
		}
	}
	wc := make([]verbs.WC, 16)
	for e.received < e.o.iters || e.sent < e.o.iters {
		n, err := e.wait(ctx, wc)
		if err != nil {
			return err
		}
		for i := range wc[:n] {
			if err := e.done(&wc[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// wait returns at least one completion. Over uc and ud a message may be lost, and then only the context ends the wait.
func (e *endpoint) wait(ctx context.Context, wc []verbs.WC) (int, error) {
	if e.o.events {
		return e.cq.Wait(ctx, wc) // sleeps in the runtime's poller: other goroutines go on, and no thread is held
	}
	const often = 1 << 10 // asking the context takes longer than an empty poll
	for i := 1; ; i++ {
		if n, err := e.cq.Poll(wc); n > 0 || err != nil {
			return n, err
		}
		if i%often == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}

// done takes a completion. The slot that it is of is ours again.
func (e *endpoint) done(wc *verbs.WC) error {
	if err := wc.Err(); err != nil {
		return err // nothing but ID, status and pair is to be relied on in wc
	}
	pair := e.number[wc.QPN]
	switch {
	case wc.Opcode == verbs.WCRecv:
		if want := e.header + e.o.size; int(wc.Len) != want {
			return fmt.Errorf("a message of %d bytes arrived, and not of %d; has the other side another -s?", wc.Len, want)
		}
		if e.o.check {
			if err := e.checked(wc.ID); err != nil {
				return err
			}
		}
		e.received++
		if e.o.host == "" {
			return e.pong(pair, wc.ID)
		}
		if err := e.recv(wc.ID); err != nil {
			return err
		}
	case wc.ID != client:
		e.sent++
		return e.recv(wc.ID)
	default:
		e.sent++
	}
	// The client's turn comes when its send is done and the answer is there.
	if e.pending[pair]--; e.pending[pair] > 0 || e.posted == e.o.iters {
		return nil
	}
	return e.ping(pair)
}

// ping sends the client's message.
func (e *endpoint) ping(pair int) error {
	e.pending[pair] = 2 // its own completion and that of the answer
	return e.send(pair, client, e.o.depth*e.slot)
}

// pong sends a message that the server received. It is in the slot, so the slot cannot receive another one until that is done.
func (e *endpoint) pong(pair int, slot uint64) error {
	if e.posted == e.o.iters {
		return nil // with srq some programs begin more rounds than were asked for
	}
	return e.send(pair, slot, int(slot)*e.slot+e.header)
}

// send lends the bytes at this offset to the device until the request with this ID completes.
func (e *endpoint) send(pair int, id uint64, off int) error {
	e.posted++
	qp, sge := e.pairs[pair], e.region.SGE(off, e.o.size)
	var err error
	if e.o.kind == "ud" {
		err = qp.SendTo(id, verbs.Signaled, e.to, sge)
	} else {
		err = qp.Send(id, verbs.Signaled, sge)
	}
	if err != nil {
		return err
	}
	return qp.Ring() // nothing goes out before this; a program with several messages posts all of them first
}
