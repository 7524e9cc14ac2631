package creation

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/mpi/internal/reduction"
	"github.com/ibrun/ibrun/perf"
)

// Exchange is what a process sends and receives in the creation of one communicator.
type Exchange struct {
	queue *Queue
	id    ID
	peers []int32 // all processes that take part, in an order that is the same in all of them
	rank  int     // index of this process in peers
	self  int32   // number of this process
	// recordAs is recorded for its messages.
	recordAs perf.Op
}

// New returns the exchange of the processes peers, one of which is self, with messages of queue.
// The caller calls Begin before, and End afterwards.
func New(queue *Queue, id ID, peers []int32, self int32, recordAs perf.Op) *Exchange {
	return &Exchange{queue: queue, id: id, peers: peers, rank: slices.Index(peers, self), self: self, recordAs: recordAs}
}

// ID returns what identifies the creation.
func (x *Exchange) ID() ID { return x.id }

// PeerError returns an error if one of the processes is lost or has left the job.
func (x *Exchange) PeerError() error {
	return x.queue.engine.Processes().PeerError(x.queue.context, x.peers)
}

func (x *Exchange) send(rank int, b []byte) (proto.Handle, error) {
	to := proto.Route{Context: x.queue.context, Peer: x.peers[rank], Match: proto.Match{Rank: x.self}, Op: x.recordAs}
	return x.queue.engine.Isend(to, slices.Concat(x.id[:], b), proto.Standard)
}

var errCtrlLength = errors.New("a control message has the wrong length: check that all processes run the same version")

// Allreduce combines src of all processes into dst of each. In step k, each process sends what it
// has combined so far to the process 2^k ranks above. A value may enter twice, so the operation
// must be idempotent.
func (x *Exchange) Allreduce(dst, src []byte, kernel reduction.Func) error {
	copy(dst, src)
	n := len(x.peers)
	for step := 1; step < n; step *= 2 {
		h, err := x.send((x.rank+step)%n, dst)
		if err != nil {
			return err
		}
		got, err := x.queue.recv(x.recordAs, sender{x.id, x.peers[(x.rank+n-step)%n]}, x.peers)
		if err != nil {
			return err
		}
		if _, err := x.queue.engine.Requests().Wait(h); err != nil {
			return err
		}
		if len(got) == 0 {
			return errAbandoned
		}
		if len(got) != len(dst) {
			return errCtrlLength
		}
		kernel(dst, dst, got)
	}
	return nil
}

// errAbandoned wraps proto.ErrFailed, so that the processes that wait for this one learn of it as
// well.
var errAbandoned = fmt.Errorf("%w: another process could not create the communicator", proto.ErrFailed)

// Abandon notifies the processes that receive from this one in Allreduce that it has given up,
// because a process is lost or has left. They may not wait for that process themselves. The message
// has no payload. It stays valid for later attempts with the same groups and tag, which cannot
// succeed either. Errors of sending are ignored: they concern processes that have left.
func (x *Exchange) Abandon() {
	n := len(x.peers)
	for step := 1; step < n; step *= 2 {
		if h, err := x.send((x.rank+step)%n, nil); err == nil {
			_ = x.queue.engine.Requests().Free(h)
		}
	}
}
