package creation

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/ibrun/ibrun/mpi/internal/core/internal/contextids"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// ID identifies the creation of a communicator: it is the hash of the groups and the tag.
type ID [sha256.Size]byte

// NewID hashes the tag and the groups, each preceded by its length, so that different lists cannot
// give the same bytes.
func NewID(tag string, groups ...[]int32) ID {
	b := binary.AppendUvarint(nil, uint64(len(tag)))
	b = append(b, tag...)
	for _, g := range groups {
		b = binary.AppendUvarint(b, uint64(len(g)))
		for _, n := range g {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	return sha256.Sum256(b)
}

// maxBytes is the maximum length of a control message with its ID. The longest payload is the set
// of all context ids.
const maxBytes = len(ID{}) + 8*contextids.Words + 64

// Queue receives the messages of creations and queues them until they are read. Any goroutine may
// use it.
type Queue struct {
	engine  *proto.Engine
	context uint32 // of the messages

	mu         sync.Mutex
	changed    sync.Cond
	messages   map[sender][][]byte
	active     map[ID]bool // creations on which a goroutine works
	receiving  bool        // a goroutine is in recvNext
	departures int         // last result of WaitMessageOrExit; used only by the goroutine in recvNext
}

// sender identifies a queue: the messages of one process for one creation, in the order in which
// they were sent.
type sender struct {
	creation ID
	process  int32
}

// Init sets the engine and the context of the messages, which is the same in all processes.
func (q *Queue) Init(e *proto.Engine, context uint32) {
	q.engine, q.context = e, context
	q.changed.L = &q.mu
	q.messages = map[sender][][]byte{}
	q.active = map[ID]bool{}
}

// Begin blocks until no other goroutine of this process works on the same creation.
func (q *Queue) Begin(a ID) {
	q.mu.Lock()
	for q.active[a] {
		q.changed.Wait()
	}
	q.active[a] = true
	q.mu.Unlock()
}

// End lets the next goroutine work on this creation.
func (q *Queue) End(a ID) {
	q.mu.Lock()
	delete(q.active, a)
	q.changed.Broadcast()
	q.mu.Unlock()
}

// recv blocks until the next message from a sender has arrived and returns it. It fails when any of
// the processes in all has left the job, because another process that noticed may have given up. op
// is recorded while it waits.
func (q *Queue) recv(op perf.Op, s sender, all []int32) ([]byte, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if pending := q.messages[s]; len(pending) > 1 {
			q.messages[s] = pending[1:]
			return pending[0], nil
		} else if len(pending) == 1 {
			delete(q.messages, s)
			return pending[0], nil
		}
		if err := q.engine.Processes().FinalizedPeer(q.context, all); err != nil {
			return nil, err
		}
		if q.receiving {
			q.engine.Processes().Watch(q.context, s.process) // the goroutine that receives waits for another process
			q.changed.Wait()
			continue
		}
		if err := q.recvNext(op, s.process); err != nil {
			return nil, err
		}
	}
}

// recvNext receives one control message of any creation, or returns when a process leaves. One from
// process is awaited. The caller must hold mu, which is released during the wait. A received
// message is queued under mu, so it is never in neither place.
func (q *Queue) recvNext(op perf.Op, process int32) error {
	q.receiving = true
	q.mu.Unlock()
	departures, err := q.engine.Processes().WaitMessageOrExit(op, q.context, process, q.departures)
	q.mu.Lock()
	q.receiving, q.departures = false, departures
	q.changed.Broadcast()
	if err != nil {
		return err
	}
	from := proto.Route{Context: q.context, Match: proto.Match{Rank: proto.AnySource, Tag: proto.AnyTag}}
	st, ok, err := q.engine.Probes().Probe(context.Background(), from, false)
	if err != nil || !ok {
		return err
	}
	b := make([]byte, maxBytes)
	if st, err = q.engine.Recv(from, b); err != nil {
		return err
	}
	if st.Bytes < len(ID{}) {
		return fmt.Errorf("process %d sent an invalid control message of %d bytes", st.Source, st.Bytes)
	}
	s := sender{ID(b), st.Source}
	q.messages[s] = append(q.messages[s], b[len(ID{}):st.Bytes])
	return nil
}
