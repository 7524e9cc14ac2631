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
	ctx *context
	fd  int
}

func (c *context) CreateChannel() (ib.Channel, error) {
	fd, err := c.uctx.CreateCompChannel()
	if err != nil {
		return nil, err
	}
	return &channel{ctx: c, fd: fd}, nil
}

func (ch *channel) FD() int      { return ch.fd }
func (ch *channel) Close() error { return ch.ctx.uctx.CloseCompChannel(ch.fd) }

// cq is a completion queue.
//
// An empty poll reads the indices without a lock. So Resize and Close do not unmap the old ring but discard its memory: the
// addresses stay readable until nothing refers to the queue any more.
type cq struct {
	ctx      *context
	handle   uint32
	token    uint64
	ring     ib.CompletionRing
	notifier *uverbs.Notifier
}

var _ ib.HasCompletionRing = (*cq)(nil)

func (c *context) CompVectors() int { return c.uctx.CompVectors() }

func (c *context) CreateCQ(n int, ch ib.Channel, vector int) (ib.CQ, error) {
	q := &cq{ctx: c, token: c.tokens.Add(1)}
	in := abi.CreateCQ{UserHandle: q.token, CQE: uint32(n), CompVector: uint32(vector), CompChannel: -1}
	if ch != nil {
		in.CompChannel = int32(ch.(*channel).fd)
	}
	var resp rxe.CreateCQResp
	r, err := c.uctx.CreateCQ(in, uverbs.Driver{Out: uverbs.BytesOf(&resp)})
	if err != nil {
		return nil, err
	}
	q.handle = r.CQHandle
	if err := q.mapRing(resp.MI); err != nil {
		c.uctx.DestroyCQ(q.handle)
		return nil, err
	}
	q.notifier = c.uctx.NewNotifier(q.handle)
	return q, nil
}

// mapRing maps the ring. The mapping lasts until the garbage collector frees q.
func (q *cq) mapRing(at rxe.MmapInfo) error {
	r, err := mapRing(q.ctx, at, ib.NewCompletionRing)
	if err != nil {
		return err
	}
	q.ring = r
	u := q.ctx.uctx
	runtime.AddCleanup(q, func(mem []byte) { u.Unmap(mem) }, r.Memory())
	return nil
}

// CompletionRing returns the queue for polls without an interface call.
func (q *cq) CompletionRing() *ib.CompletionRing { return &q.ring }

func (q *cq) Poll(wc []ib.WC) (int, error) {
	n, _ := q.ring.Poll(wc)
	return n, nil
}

func (q *cq) Len() int                    { return int(q.ring.Capacity()) }
func (q *cq) Token() uint64               { return q.token }
func (q *cq) Notify(solicited bool) error { return q.notifier.Notify(solicited) }
func (q *cq) AckEvents(int)               {} // the kernel does not wait for it

// Resize maps the larger ring into which the driver has copied the completions.
func (q *cq) Resize(n int) error {
	var resp rxe.ResizeCQResp
	if _, err := q.ctx.uctx.ResizeCQ(q.handle, uint32(n), uverbs.Driver{Out: uverbs.BytesOf(&resp)}); err != nil {
		return err
	}
	old := q.ring.Memory()
	if err := q.mapRing(resp.MI); err != nil {
		return err
	}
	return q.ctx.uctx.Discard(old)
}

func (q *cq) Close() error {
	if _, err := q.ctx.uctx.DestroyCQ(q.handle); err != nil && !deviceRemoved(err) {
		return err
	}
	return q.ctx.uctx.Discard(q.ring.Memory())
}
