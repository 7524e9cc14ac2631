package main

import (
	"context"
	"fmt"

	"github.com/ibrun/ibrun/verbs"
)

// client is the ID of the sends of the client, which belong to no slot.
const client = 1 << 32

// exchange sends the messages back and forth. The client begins, once for each queue pair. The server returns what it receives.
func (e *endpoint) exchange(ctx context.Context) error {
	if e.o.host != "" {
		for i := range min(len(e.qps), e.o.iters) {
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

// wait blocks until there is a completion. Over uc and ud a message may be lost; then only the context ends the wait.
func (e *endpoint) wait(ctx context.Context, wc []verbs.WC) (int, error) {
	if e.o.events {
		return e.cq.Wait(ctx, wc) // sleeps in the runtime's poller: other goroutines run, and no thread is blocked
	}
	const often = 1 << 10 // checking the context takes longer than an empty poll
	for i := 1; ; i++ {
		if n, err := e.cq.Poll(wc); n > 0 || err != nil {
			return n, err
		}
		if i%often == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}

// done handles a completion. Its slot belongs to this program again.
func (e *endpoint) done(wc *verbs.WC) error {
	if err := wc.Err(); err != nil {
		return err // only ID, status and queue pair number of wc are valid
	}
	pair := e.number[wc.QPN]
	switch {
	case wc.Opcode == verbs.WCRecv:
		if want := e.header + e.o.size; int(wc.Len) != want {
			return fmt.Errorf("received %d bytes, want %d; does the other side have the same -s?", wc.Len, want)
		}
		if e.o.check {
			if err := e.checkMessage(wc.ID); err != nil {
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
	// The client sends again when its send has completed and the answer has arrived.
	if e.pending[pair]--; e.pending[pair] > 0 || e.posted == e.o.iters {
		return nil
	}
	return e.ping(pair)
}

// ping sends the message of the client.
func (e *endpoint) ping(pair int) error {
	e.pending[pair] = 2 // that of the send and that of the answer
	return e.send(pair, client, e.o.depth*e.slot)
}

// pong returns a message that the server has received. It sends it from the slot, which cannot receive another one until then.
func (e *endpoint) pong(pair int, slot uint64) error {
	if e.posted == e.o.iters {
		return nil // with srq some programs begin more round trips than requested
	}
	return e.send(pair, slot, int(slot)*e.slot+e.header)
}

// send sends the bytes at this offset. They belong to the device until the request with this ID completes.
func (e *endpoint) send(pair int, id uint64, off int) error {
	e.posted++
	qp, sge := e.qps[pair], e.region.SGE(off, e.o.size)
	var err error
	if e.o.kind == "ud" {
		err = qp.SendTo(id, verbs.Signaled, e.to, sge)
	} else {
		err = qp.Send(id, verbs.Signaled, sge)
	}
	if err != nil {
		return err
	}
	return qp.Ring() // nothing is sent before this; a program with several messages posts all of them first
}
