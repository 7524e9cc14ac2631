package core

import (
	"errors"
	"fmt"
	"math"

	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// GrequestFuncs are the callbacks of a generalized request. Each may be nil.
type GrequestFuncs struct {
	// Query sets the status of the completed request. Its error is that of the operation.
	Query func(st *Status) error
	// Free is called once, after Query, or for a request that is freed.
	Free func() error
	// Cancel is called by Cancel, with whether the request has completed.
	Cancel func(complete bool) error
}

// NewGrequest returns an active generalized request.
func (p *Process) NewGrequest(f GrequestFuncs) (Request, error) {
	if err := p.checkUsable("NewGrequest"); err != nil {
		return Request{}, err
	}
	p.mu.Lock()
	none := p.users == 0
	p.mu.Unlock()
	if none {
		return Request{}, p.newError("NewGrequest", ErrOther, errNotJoined)
	}
	return Request{p.engine.Requests().StartGrequestWith(proto.Callbacks{Query: f.query, Free: f.free, Cancel: f.cancel})}, nil
}

// CompleteGrequest completes a generalized request.
func (r Request) CompleteGrequest() error {
	const op = "Grequest.Complete"
	if r.h.Zero() {
		return newError(op, ErrRequest, errors.New("the zero Grequest"))
	}
	return requestError(r.h.Engine(), op, r.h.Engine().Requests().CompleteGrequest(r.h, nil))
}

func (f GrequestFuncs) query(st *proto.Status) error {
	if f.Query == nil {
		return nil
	}
	return callback("query", func() error {
		s := statusOf(*st)
		err := f.Query(&s)
		if int(int32(s.Source)) != s.Source || int(int32(s.Tag)) != s.Tag {
			return errors.Join(err, fmt.Errorf("source %d or tag %d is out of range: the limit is %d", s.Source, s.Tag, math.MaxInt32))
		}
		*st = proto.Status{Source: int32(s.Source), Tag: int32(s.Tag), Bytes: s.Bytes, Cancelled: s.Cancelled}
		return err
	})
}

func (f GrequestFuncs) free() error {
	if f.Free == nil {
		return nil
	}
	return callback("free", f.Free)
}

func (f GrequestFuncs) cancel(complete bool) error {
	if f.Cancel == nil {
		return nil
	}
	return callback("cancel", func() error { return f.Cancel(complete) })
}

// callback calls a callback of a generalized request. Its error says which it is. A panic is an
// error.
func callback(name string, f func() error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("the %s callback of a generalized request: %w", name, err)
		}
	}()
	// Deferred functions run in the reverse order, so the one above sees the error of a panic, too.
	defer recoverPanic(&err)
	return f()
}
