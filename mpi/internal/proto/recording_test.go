package proto

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

func recorded(e *Engine) (*perf.Snapshot, error) { return e.rec.Configured.Page().Snapshot() }

// TestRecordTraffic: both sides record the same traffic, for every protocol.
func TestRecordTraffic(t *testing.T) {
	es := open(t, 2, nil, nil)
	// Lengths for every protocol.
	lengths := []int{0, 8, 4 << 10, 48 << 10, 200 << 10, 3 << 20}
	each(t, es, func(self int, e *Engine) error {
		for i, n := range lengths {
			buf := make([]byte, n)
			var err error
			if self == 0 {
				err = e.Send(to(0, 1, int32(i)), buf, Standard)
			} else {
				_, err = e.Recv(from(0, int32(i)), buf)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	checkAgreement(t, es, lengths)
}

// checkAgreement checks that both engines have recorded messages of these lengths in the same way.
func checkAgreement(t *testing.T, es []*Engine, lengths []int) {
	t.Helper()
	out, err := recorded(es[0])
	if err != nil {
		t.Fatal(err)
	}
	in, err := recorded(es[1])
	if err != nil {
		t.Fatal(err)
	}
	var sum perf.Volume
	for _, s := range []*perf.Snapshot{out, in} {
		for i := range s.Traffic {
			if s.Traffic[i].Direction == perf.Out {
				sum.Messages += s.Traffic[i].Messages
				sum.Bytes += s.Traffic[i].Bytes
			}
			s.Traffic[i].Direction = perf.Both
		}
		slices.SortFunc(s.Traffic, func(a, b perf.Traffic) int { return cmp.Compare(a.Protocol, b.Protocol) })
	}
	want := perf.Volume{Messages: uint64(len(lengths))}
	for _, n := range lengths {
		want.Bytes += uint64(n)
	}
	if sum != want || !slices.Equal(out.Traffic, in.Traffic) || len(out.Traffic) < 2 {
		t.Errorf("out %+v\nin  %+v\nwant %+v in all", out.Traffic, in.Traffic, want)
	}
}

// TestRecordProcNull: sends to ProcNull and receives from it are calls that move no bytes.
func TestRecordProcNull(t *testing.T) {
	e := open(t, 1, nil, nil)[0]
	buf := make([]byte, 100)
	d, err := datatype.OfKind(datatype.Uint8).Buffer(make([]byte, 100), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	to, from := Route{Peer: ProcNull, Op: perf.Isend}, Route{Peer: AnySource, Match: Match{Rank: ProcNull}, Op: perf.Irecv}
	start := func(h Handle, err error) {
		t.Helper()
		if err == nil {
			_, err = e.Requests().Wait(h)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	start(e.Isend(to, buf, Standard))
	start(e.IsendData(to, &d, Standard, nil))
	start(e.Irecv(from, buf), nil)
	start(e.IrecvData(from, &d, nil), nil)
	for _, h := range []Handle{e.SendInit(to, oneBlock(buf), Standard), e.RecvInit(from, oneBlock(buf))} {
		start(h, e.Start(h))
	}
	s, err := recorded(e)
	if err != nil {
		t.Fatal(err)
	}
	got := map[perf.Op]uint64{}
	for _, o := range s.Ops {
		got[o.Op] += o.Calls
		if o.Bytes != 0 {
			t.Errorf("%v has moved %d bytes", o.Op, o.Bytes)
		}
	}
	if got[perf.Isend] != 2 || got[perf.Irecv] != 2 || got[perf.Start] != 2 {
		t.Errorf("the calls are %v", got)
	}
}

// TestRecordRTR: the same for messages that are written into the buffers of RTRs.
func TestRecordRTR(t *testing.T) {
	for name, tw := range map[string]variant{"write": {}, "shared": {pairing: true}, "copied": {noRead: true}} {
		t.Run(name, func(t *testing.T) {
			es := open(t, 2, tw.wrap, nil)
			setExactLength(es, 1)
			lengths := []int{100000, 1, 200000}
			each(t, es, func(self int, e *Engine) error {
				if self == 0 {
					if err := e.Send(to(0, 1, 1), make([]byte, lengths[1]), Standard); err != nil {
						return err
					}
					if st, _, err := e.Probes().Probe(context.Background(), from(1, 0), true); err != nil || st.Bytes != 1 {
						return fmt.Errorf("%+v, %w", st, err)
					}
					return errors.Join(e.Send(to(0, 1, 2), make([]byte, lengths[2]), Standard),
						e.Send(to(0, 1, 0), make([]byte, lengths[0]), Standard))
				}
				if _, err := e.Recv(from(0, 1), make([]byte, lengths[1])); err != nil {
					return err
				}
				hs := []Handle{e.Irecv(from(0, 0), make([]byte, lengths[0])), e.Irecv(from(0, 2), make([]byte, lengths[2]))}
				if err := e.Send(to(1, 0, 0), []byte{1}, Standard); err != nil {
					return err
				}
				_, err := e.Requests().WaitAll(perf.Waitall, hs, nil)
				return err
			})
			checkAgreement(t, es, append(lengths, 1)) // and the message that the receives are posted
		})
	}
}

// TestRecordUnexpected: the current number of unexpected messages and the maximum are recorded.
func TestRecordUnexpected(t *testing.T) {
	es := open(t, 1, nil, nil)
	e := es[0]
	for i := range 3 {
		if err := e.Send(to(0, 0, int32(i)), make([]byte, 100), Standard); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Recv(from(0, 2), make([]byte, 100)); err != nil { // the last one, so that the others have to be stored
		t.Fatal(err)
	}
	s, err := recorded(e)
	if err != nil {
		t.Fatal(err)
	}
	q := s.Queues
	if q.Unexpected != 2 || q.UnexpectedHigh < 2 || q.UnexpectedBytes == 0 || q.UnexpectedBytesHigh < q.UnexpectedBytes {
		t.Errorf("%+v", q)
	}
}

// shows waits until an engine shows a current operation, and compares it.
func shows(e *Engine, want perf.Current) error {
	for {
		s, err := recorded(e)
		if err != nil {
			return err
		}
		if len(s.Current) == 1 && s.Current[0].Seq != 0 {
			want.Seq = s.Current[0].Seq
			if s.Current[0] != want {
				return fmt.Errorf("%+v, want %+v", s.Current[0], want)
			}
			return nil
		}
		runtime.Gosched()
	}
}

// TestRecordSchedule: while a call waits for a schedule, its operation is shown, and the process
// whose message it needs.
func TestRecordSchedule(t *testing.T) {
	es := open(t, 2, nil, nil)
	want := perf.Current{Op: perf.Iallreduce, Peer: 1, Tag: -1}
	each(t, es, func(self int, e *Engine) error {
		if self == 0 {
			s := script{steps: []scriptStep{recvStep(1, make([]byte, 8))}, ended: make(chan error, 1)}
			on := Route{Context: testContext, Match: Match{Tag: 7}, Op: perf.Iallreduce}
			_, err := e.Requests().Wait(e.Schedules().Start(on, 0, &s, new(Schedule)))
			return err
		}
		if err := shows(es[0], want); err != nil {
			return err
		}
		return e.Send(to(1, 0, 7), make([]byte, 8), Standard)
	})
}

// TestRecordCurrent: an operation that waits is shown as the current one, with its peer, and not
// any more when it has ended.
func TestRecordCurrent(t *testing.T) {
	es := open(t, 2, nil, nil)
	received := make(chan error, 1)
	go func() {
		r := from(1, 7)
		r.Op, r.Peer = perf.Recv, 1
		_, err := es[0].Recv(r, make([]byte, 64))
		received <- err
	}()
	if err := shows(es[0], perf.Current{Op: perf.Recv, Peer: 1, Tag: 7, Bytes: 64}); err != nil {
		t.Fatal(err)
	}
	awaitSleepers(es[0], 1)
	waittest.Elapse(t, 5*time.Millisecond, "this is waiting time, which is counted")
	if err := es[1].Send(to(1, 0, 7), make([]byte, 8), Standard); err != nil {
		t.Fatal(err)
	}
	if err := waittest.Receive(t, "the message arrives", received); err != nil {
		t.Fatal(err)
	}
	s, err := recorded(es[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Current) != 0 || s.Waiting == 0 || len(s.Ops) != 1 || s.Ops[0].Calls != 1 || s.Ops[0].Bytes != 8 {
		t.Errorf("%+v", s)
	}
}

// TestRecordOnItsWay: a message is on its way from where it is sent, or is to be sent, until it has
// been handled, whatever its protocol. One that waits for a receive is not, and neither is one
// whose receive waits for it.
func TestRecordOnItsWay(t *testing.T) {
	for _, w := range []wrap{nil, variant{noRead: true}.wrap, variant{fragments: true}.wrap, variant{pairing: true}.wrap} {
		for _, n := range []int{8, 6000, 200 << 10} {
			es := open(t, 2, w, nil)
			total := func() (sent, arrived uint64) {
				for _, e := range es {
					s, err := recorded(e)
					if err != nil {
						t.Fatal(err)
					}
					sent, arrived = sent+s.Sent, arrived+s.Arrived
				}
				return sent, arrived
			}
			h, err := es[0].Isend(to(0, 1, 3), make([]byte, n), Synchronous)
			if err != nil {
				t.Fatal(err)
			}
			if sent, arrived := total(); sent <= arrived {
				t.Errorf("%d bytes: it was sent: %d were sent, %d have arrived", n, sent, arrived)
			}
			waittest.Poll(t, "the message waits for a receive", func() bool { return !onItsWay(t, es) })
			r := es[1].Irecv(from(0, 3), make([]byte, n))
			for i, h := range []Handle{h, r} {
				waittest.Poll(t, "the message is received", func() bool {
					_, done, err := es[i].Requests().Test(h)
					if err != nil {
						t.Fatal(err)
					}
					return done || es[1-i].Poll() != nil
				})
			}
			waittest.Poll(t, "nothing is on its way", func() bool { return !onItsWay(t, es) })
		}
	}
}

// TestRecordPaused: if recording was off for some time, the counts of messages say so.
func TestRecordPaused(t *testing.T) {
	es := open(t, 2, nil, nil)
	es[0].SetRecording(false)
	es[0].SetRecording(true)
	for i, e := range es {
		if s, err := recorded(e); err != nil || s.Paused != (i == 0) {
			t.Errorf("engine %d: %v, %v", i, s.Paused, err)
		}
	}
}

// TestRecordRefused: an eager message is counted before it is posted. If the peer is gone then, it
// is not on its way.
func TestRecordRefused(t *testing.T) {
	es := open(t, 2, nil, nil)
	e := es[0]
	if err := e.Send(to(0, 1, 3), nil, Standard); err != nil {
		t.Fatal(err)
	}
	waittest.Poll(t, "the message arrives", func() bool { return !onItsWay(t, es) })
	e.lock()
	p, o := e.links.peer(1), e.links.control.take()
	p.finalized = fabric.ErrPeerClosed
	o.header, o.length = wire.Header(wire.Envelope{Kind: wire.Eager, Match: Match{Tag: 3}})
	p.link.Out(0)
	_, err := e.links.post(1, o)
	e.unlock()
	if !errors.Is(err, fabric.ErrPeerClosed) || onItsWay(t, es) {
		t.Errorf("%v, or a message is on its way", err)
	}
}

// TestRecordRefusedData: a piece of a message that cannot be sent, since the peer is gone, is on
// its way no more.
func TestRecordRefusedData(t *testing.T) {
	es := open(t, 2, nil, nil)
	e := es[0]
	if err := e.Send(to(0, 1, 3), nil, Standard); err != nil {
		t.Fatal(err)
	}
	h, err := e.Isend(to(0, 1, 4), make([]byte, 1<<20), Standard)
	if err != nil {
		t.Fatal(err)
	}
	waittest.Poll(t, "the messages arrive", func() bool { return !onItsWay(t, es) })
	e.lock()
	e.links.peer(1).finalized = fabric.ErrPeerClosed
	h.r.transfer.bytes = len(h.r.buf)
	h.r.e.sends.sendNextData(h.r)
	e.unlock()
	if _, err := e.Requests().Wait(h); !errors.Is(err, fabric.ErrPeerClosed) || onItsWay(t, es) {
		t.Errorf("%v, or the counts differ", err)
	}
}
