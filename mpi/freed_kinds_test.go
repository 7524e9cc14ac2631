package mpi_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/ibrun/ibrun/mpi"
)

// freedCase is a request of rank 0 on a communicator that is then freed, and what rank 1 does meanwhile.
type freedCase struct {
	name string
	// peer is called at rank 1, then owner at rank 0, then last at rank 1. nil: the rank does nothing.
	peer, owner, last begin
	// want is the outcome of the request of rank 0, and peerWant that of rank 1.
	want, peerWant outcome
	// collective says that the request is of a collective: owner is called at rank 0, and last at all others, at the same time.
	collective bool
	// unreceived says that a message waits for ever, although the request has completed.
	unreceived bool
	// after is called at rank 0 when the communicator has been freed; nil: nothing is.
	after func(x *freedRank) error
}

// begin makes a request, and starts it unless it is to be inactive. The zero Request stands for a call that has returned.
type begin func(x *freedRank) (mpi.Request, error)

// outcome is how the operation of a request ends.
type outcome uint8

const (
	completes outcome = iota
	fails             // with ErrComm
	unknown           // one of the two
)

// freedRank is a rank in a freedCase.
type freedRank struct {
	p        *mpi.Process
	w, c     *mpi.Comm
	session  *mpi.Session // of c; nil: c belongs to the World Model
	out, in  []byte       // of longMessage bytes
	attached []byte       // for buffered sends
	message  *mpi.Message // of a matched probe
	call     chan error   // has the result of a call in another goroutine
	dup      *mpi.Comm    // of an Idup
}

// longMessage is the length of messages that need their receiver with any transport.
const longMessage = 1 << 20

// part returns 8 bytes of b, or all.
func part(b []byte, long bool) []byte {
	if long {
		return b
	}
	return b[:8]
}

// startedBy is f, and then starts the persistent request.
func startedBy(f begin) begin {
	return func(x *freedRank) (mpi.Request, error) {
		r, err := f(x)
		if err != nil {
			return r, err
		}
		return r, r.Start()
	}
}

// sendMode is a way to send.
type sendMode struct {
	name                              string
	send                              func(c *mpi.Comm, x []byte, dst, tag int) (mpi.Request, error)
	persistent, synchronous, buffered bool
}

var sendModes = []sendMode{
	{name: "Isend", send: mpi.Isend[byte]}, {name: "Issend", send: mpi.Issend[byte], synchronous: true},
	{name: "Irsend", send: mpi.Irsend[byte]}, {name: "Ibsend", send: mpi.Ibsend[byte], buffered: true},
	{name: "SendInit", send: mpi.SendInit[byte], persistent: true},
	{name: "SsendInit", send: mpi.SsendInit[byte], persistent: true, synchronous: true},
	{name: "RsendInit", send: mpi.RsendInit[byte], persistent: true},
	{name: "BsendInit", send: mpi.BsendInit[byte], persistent: true, buffered: true},
}

// to begins a send in the mode.
func (m sendMode) to(dst int, long bool) begin {
	f := func(x *freedRank) (mpi.Request, error) { return m.send(x.c, part(x.out, long), dst, 5) }
	if m.persistent {
		return startedBy(f)
	}
	return f
}

// waits reports whether a send in the mode waits for its receiver.
func (m sendMode) waits(long bool) bool { return (m.synchronous || long) && !m.buffered }

func lengthName(long bool) string { return map[bool]string{true: "long "}[long] }

// freedSends are sends in each mode to a rank that does not receive the message, has posted the receive, or has received it.
func freedSends() (all []freedCase) {
	for _, m := range sendModes {
		for _, long := range []bool{false, true} {
			post := func(x *freedRank) (mpi.Request, error) { return mpi.Irecv(x.c, part(x.in, long), 0, 5) }
			receive := func(x *freedRank) (r mpi.Request, err error) {
				_, err = mpi.Recv(x.c, part(x.in, long), 0, 5)
				return r, err
			}
			name, alone := lengthName(long)+m.name, completes
			if m.waits(long) {
				alone = fails
			}
			all = append(all, freedCase{name: name, owner: m.to(1, long), want: alone, unreceived: long},
				freedCase{name: name + ", posted", peer: post, owner: m.to(1, long)},
				freedCase{name: name + ", received", owner: m.to(1, long), last: receive})
		}
		all = append(all, freedCase{name: m.name + " to ProcNull", owner: m.to(mpi.ProcNull, false)},
			freedCase{name: m.name + ", cancelled", owner: func(x *freedRank) (mpi.Request, error) {
				r, err := m.to(1, false)(x)
				return r, errors.Join(err, r.Cancel())
			}})
		if m.persistent {
			all = append(all, freedCase{name: m.name + ", not started", owner: func(x *freedRank) (mpi.Request, error) {
				return m.send(x.c, x.out[:8], 1, 5)
			}})
		}
	}
	return all
}

// freedReceives are receives of a message that is never sent, is sent when the communicator is being freed, or was sent before.
func freedReceives() (all []freedCase) {
	isend := sendModes[0].to(0, false)
	for _, from := range []int{1, mpi.AnySource, mpi.ProcNull} {
		inactive := func(x *freedRank) (mpi.Request, error) { return mpi.RecvInit(x.c, x.in[:8], from, 5) }
		all = append(all, freedCase{name: fmt.Sprintf("RecvInit from %d, not started", from), owner: inactive})
		for name, f := range byName(map[string]begin{
			"Irecv":    func(x *freedRank) (mpi.Request, error) { return mpi.Irecv(x.c, x.in[:8], from, 5) },
			"RecvInit": startedBy(inactive),
		}) {
			name, alone := fmt.Sprintf("%s from %d", name, from), fails
			if from == mpi.ProcNull {
				alone = completes
			} else {
				all = append(all, freedCase{name: name + ", sent before", peer: isend, owner: f},
					freedCase{name: name + ", sent last", owner: f, last: isend})
			}
			all = append(all, freedCase{name: name, owner: f, want: alone})
		}
	}
	return all
}

// freedMatched are messages that a matched probe has taken: they can be received when the communicator has been freed.
func freedMatched() (all []freedCase) {
	for _, m := range sendModes[:2] {
		for _, long := range []bool{false, true} {
			name := "of a " + lengthName(long) + m.name
			mprobe := func(x *freedRank) (err error) {
				x.message, _, err = x.c.Mprobe(1, 5)
				return err
			}
			all = append(all, freedCase{name: "Imrecv " + name, peer: m.to(0, long), owner: func(x *freedRank) (mpi.Request, error) {
				if err := mprobe(x); err != nil {
					return mpi.Request{}, err
				}
				return mpi.Imrecv(x.message, part(x.in, long))
			}}, freedCase{name: "Mrecv later " + name, peer: m.to(0, long), owner: func(x *freedRank) (mpi.Request, error) {
				return mpi.Request{}, mprobe(x)
			}, after: func(x *freedRank) error {
				_, err := mpi.Mrecv(x.message, part(x.in, long))
				return err
			}})
		}
	}
	return all
}

// freedCalls are calls of another goroutine that wait.
func freedCalls() (all []freedCase) {
	for name, call := range byName(map[string]func(x *freedRank) error{
		"Recv":      func(x *freedRank) error { return second(mpi.Recv(x.c, x.in, 1, 5)) },
		"Probe":     func(x *freedRank) error { return second(x.c.Probe(1, 5)) },
		"Mprobe":    func(x *freedRank) error { _, _, err := x.c.Mprobe(mpi.AnySource, 5); return err },
		"Ssend":     func(x *freedRank) error { return mpi.Ssend(x.c, x.out[:8], 1, 5) },
		"long Send": func(x *freedRank) error { return mpi.Send(x.c, x.out, 1, 5) },
		"Iprobe": func(x *freedRank) (err error) {
			for found := false; err == nil && !found; runtime.Gosched() {
				_, found, err = x.c.Iprobe(1, 5)
			}
			return err
		},
	}) {
		all = append(all, freedCase{name: name, owner: func(x *freedRank) (r mpi.Request, err error) {
			result := make(chan error, 1)
			x.call = result
			y := *x // the goroutine may outlast the case if that fails
			go func() { result <- call(&y) }()
			return r, nil
		}, after: func(x *freedRank) error { return freedError(<-x.call) }})
	}
	return all
}

// psend begins a partitioned send, of which partitions are ready.
func psend(long bool, ready int) begin {
	return func(x *freedRank) (mpi.Request, error) {
		r, err := startedBy(idlePsend(long))(x)
		for i := range ready {
			err = errors.Join(err, r.Pready(i))
		}
		return r, err
	}
}

func idlePsend(long bool) begin {
	return func(x *freedRank) (mpi.Request, error) {
		return mpi.PsendInit(x.c, part(x.out, long), 2, 1-x.c.Rank(), 5)
	}
}

func idlePrecv(long bool) begin {
	return func(x *freedRank) (mpi.Request, error) {
		return mpi.PrecvInit(x.c, part(x.in, long), 2, 1-x.c.Rank(), 5)
	}
}

// badPsend is a PsendInit that fails: three partitions do not divide the message.
func badPsend(x *freedRank) (mpi.Request, error) {
	return mpi.Request{}, ofClass(second(mpi.PsendInit(x.c, x.out[:8], 3, 0, 5)), mpi.ErrCount)
}

// freedPartitioned are partitioned sends and receives, whose other side may be missing, not started, or not ready.
func freedPartitioned() []freedCase {
	precv, longPrecv := startedBy(idlePrecv(false)), startedBy(idlePrecv(true))
	return []freedCase{
		{name: "PsendInit, not started", owner: idlePsend(false)},
		{name: "PsendInit, none ready", owner: psend(false, 0), want: fails},
		{name: "PsendInit, one ready", owner: psend(false, 1), want: fails},
		{name: "PsendInit, all ready", owner: psend(false, 2)},
		{name: "long PsendInit, all ready", owner: psend(true, 2), want: fails},
		{name: "PrecvInit, not started", owner: idlePrecv(false)},
		{name: "PrecvInit", owner: precv, want: fails},
		{name: "PrecvInit, the send has failed", peer: badPsend, owner: precv, want: fails},
		{name: "PrecvInit, not started, the send has failed", peer: badPsend, owner: idlePrecv(false)},
		{name: "PrecvInit, the send is not started", peer: idlePsend(false), owner: precv, want: fails},
		{name: "both not started", peer: idlePsend(false), owner: idlePrecv(false)},
		{name: "PrecvInit at both", peer: precv, owner: precv, want: fails, peerWant: fails},
		{name: "PsendInit at both", peer: psend(false, 1), owner: psend(false, 1), want: fails, peerWant: fails},
		{name: "partitions, none ready", peer: precv, owner: psend(false, 0), want: fails, peerWant: fails},
		{name: "partitions, one ready", peer: precv, owner: psend(false, 1), want: fails, peerWant: fails},
		{name: "partitions, all ready", peer: precv, owner: psend(false, 2)},
		{name: "long partitions, all ready", peer: longPrecv, owner: psend(true, 2)},
		{name: "partitions, all ready, the receive is not started", peer: idlePrecv(false), owner: psend(false, 2)},
	}
}

// freedCollectives are collectives that all ranks have started, or some.
func freedCollectives() (all []freedCase) {
	for name, f := range byName(map[string]begin{
		"BarrierInit": func(x *freedRank) (mpi.Request, error) { return x.c.BarrierInit() },
		"BcastInit":   func(x *freedRank) (mpi.Request, error) { return mpi.BcastInit(x.c, x.in, 0) },
		"Iallreduce":  func(x *freedRank) (mpi.Request, error) { return mpi.Iallreduce(x.c, x.in[:64], x.out[:64], mpi.Sum) },
		"Ibarrier":    func(x *freedRank) (mpi.Request, error) { return x.c.Ibarrier() },
		"Ibcast":      func(x *freedRank) (mpi.Request, error) { return mpi.Ibcast(x.c, x.in, 1) },
		"Idup": func(x *freedRank) (r mpi.Request, err error) {
			x.dup, r, err = x.c.Idup()
			return r, err
		},
	}) {
		f, idle := f, f
		if strings.HasSuffix(name, "Init") {
			f = startedBy(f)
			all = append(all, freedCase{name: name + ", not started", owner: idle, last: idle, collective: true},
				freedCase{name: name + ", started at rank 0", owner: f, last: idle, collective: true, want: fails})
		}
		others := fails
		if name == "Ibcast" {
			others = unknown // the root is one of them
		}
		all = append(all, freedCase{name: name, owner: f, last: f, collective: true},
			freedCase{name: name + " at rank 0", owner: f, collective: true, want: fails},
			freedCase{name: name + " at the others", last: f, collective: true, peerWant: others})
	}
	// crossed makes two requests and starts the first or the second one.
	crossed := func(second bool) begin {
		return func(x *freedRank) (mpi.Request, error) {
			a, err := x.c.BarrierInit()
			b, err1 := x.c.BarrierInit()
			if second {
				a, b = b, a
			}
			return a, errors.Join(err, err1, a.Start(), b.Free())
		}
	}
	return append(all, freedCase{name: "two BarrierInits", owner: crossed(false), last: crossed(true), collective: true,
		want: fails, peerWant: fails})
}

// freedError returns an error unless err says that the communicator has been freed.
func freedError(err error) error {
	if err := ofClass(err, mpi.ErrComm); err != nil {
		return err
	}
	return check(strings.Contains(err.Error(), "the communicator has been freed"), "the text is %q", err)
}
