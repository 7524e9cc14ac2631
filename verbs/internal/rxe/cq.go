package rxe

import (
	"runtime"

	"github.com/ibrun/ibrun/internal/abi/rxe"
	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/uverbs"
)

// channel is a completion channel.
type channel struct {
	c  *context
	fd int
}

func (c *context) CreateChannel() (ib.Channel, error) {
	fd, err := c.u.CreateCompChannel()
	if err != nil {
		return nil, err
	}
	return &channel{c: c, fd: fd}, nil
}

func (ch *channel) FD() int      { return ch.fd }
func (ch *channel) Close() error { return ch.c.u.CloseCompChannel(ch.fd) }

// cq is a completion queue.
//
// Whoever polls looks at the indices without a lock, so a mapping that is given up is not unmapped at once but discarded:
// the addresses stay readable until nothing refers to the queue any more.
type cq struct {
	c      *context
	handle uint32
	token  uint64
	Completions
	notifier *uverbs.Notifier
}

// CompletionsOf is the ring of a completion queue that is one of this package's, else nil.
func CompletionsOf(q ib.CQ) *Completions {
	if q, ok := q.(*cq); ok {
		return &q.Completions
	}
	return nil
}

func (c *context) CreateCQ(n int, ch ib.Channel, vector int) (ib.CQ, error) {
	q := &cq{c: c, token: c.tokens.Add(1)}
	in := abi.CreateCQ{UserHandle: q.token, CQE: uint32(n), CompVector: uint32(vector), CompChannel: -1}
	if ch != nil {
		in.CompChannel = int32(ch.(*channel).fd)
	}
	var answer rxe.CreateCQResp
	r, err := c.u.CreateCQ(in, uverbs.Driver{Out: bytesOf(&answer)})
	if err != nil {
		return nil, err
	}
	q.handle = r.CQHandle
	if err := q.use(answer.MI); err != nil {
		c.u.DestroyCQ(q.handle)
		return nil, err
	}
	q.notifier = c.u.NewNotifier(q.handle)
	return q, nil
}

// use maps the ring.
func (q *cq) use(at rxe.MmapInfo) error {
	r, err := q.c.mapRing(at, wcBytes)
	if err != nil {
		return err
	}
	q.ring = r
	u := q.c.u
	runtime.AddCleanup(q, func(mem []byte) { u.Unmap(mem) }, r.mem)
	return nil
}

func (q *cq) Len() int                    { return int(q.ring.capacity()) }
func (q *cq) Token() uint64               { return q.token }
func (q *cq) Notify(solicited bool) error { return q.notifier.Notify(solicited) }
func (q *cq) AckEvents(int)               {} // the kernel does not wait for it
func (q *cq) Indices() *ib.Indices        { return q.ring.indices() }

// Resize has the driver copy what is in the ring into another.
func (q *cq) Resize(n int) error {
	var answer rxe.ResizeCQResp
	if _, err := q.c.u.ResizeCQ(q.handle, uint32(n), uverbs.Driver{Out: bytesOf(&answer)}); err != nil {
		return err
	}
	old := q.ring.mem
	if err := q.use(answer.MI); err != nil {
		return err
	}
	return q.c.u.Discard(old)
}

func (q *cq) Close() error {
	if _, err := q.c.u.DestroyCQ(q.handle); err != nil && !gone(err) {
		return err
	}
	return q.c.u.Discard(q.ring.mem)
}
