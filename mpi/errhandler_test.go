package mpi_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

var errHandled = errors.New("handled")

// counting returns a handler that counts its calls by communicator, and returns errHandled.
func counting(calls map[*mpi.Comm]int) mpi.ErrorHandler {
	return mpi.NewErrorHandler(func(c *mpi.Comm, err *mpi.Error) error {
		calls[c]++
		return fmt.Errorf("%w: %w", errHandled, err)
	})
}

// badSend is a send that fails by itself.
func badSend(c *mpi.Comm) error { return mpi.Send(c, []int{1}, c.Size(), 0) }

// handled checks that a call has failed, and that a handler has changed the error.
func handled(err error, class mpi.Class) error {
	return errors.Join(check(errors.Is(err, errHandled), "not handled: %v", err), ofClass(err, class))
}

func TestErrorHandlers(t *testing.T) {
	inWorlds(t, 2, map[string]func(p *mpi.Process) error{
		"S7-01": func(p *mpi.Process) error { // the default returns errors
			h, err := p.World().ErrorHandler()
			return errors.Join(err, check(h == mpi.ErrorsReturn && p.ErrorHandler() == h && h != mpi.ErrorsAreFatal, "another default"),
				ofClass(badSend(p.World()), mpi.ErrRank))
		},
		"S7-02": func(p *mpi.Process) error { // only for its communicator, once for a call
			calls, w := map[*mpi.Comm]int{}, p.World()
			h := counting(calls)
			c, err := w.Dup()
			if err := errors.Join(err, c.SetErrorHandler(h)); err != nil {
				return err
			}
			got, err := c.ErrorHandler()
			_, errSplit := c.Split(-1, 0)
			errs := []error{err, check(got == h, "another handler"), handled(badSend(c), mpi.ErrRank), handled(errSplit, mpi.ErrArg),
				check(calls[c] == 2 && len(calls) == 1, "calls %v", calls),
				check(!errors.Is(badSend(w), errHandled), "the handler of another one")}
			return errors.Join(append(errs, c.SetErrorHandler(mpi.ErrorsReturn),
				check(!errors.Is(badSend(c), errHandled), "kept"), c.Free())...)
		},
		"S7-03": inherited,
		"S7-04": func(p *mpi.Process) error { // a panic is an error, with that of the call
			c, err := p.World().Dup()
			h := mpi.NewErrorHandler(func(*mpi.Comm, *mpi.Error) error { panic("boom") })
			if err := errors.Join(err, c.SetErrorHandler(h)); err != nil {
				return err
			}
			err = badSend(c)
			return errors.Join(ofClass(err, mpi.ErrOther), check(errors.Is(err, mpi.ErrRank), "lost: %v", err), c.Barrier(), c.Free())
		},
		"S7-05": func(p *mpi.Process) error { // the handler decides, and may call anything
			c, err := p.World().Dup()
			if err != nil {
				return err
			}
			var nested error
			err = c.SetErrorHandler(mpi.NewErrorHandler(func(c *mpi.Comm, err *mpi.Error) error {
				nested = c.Barrier()
				return nil
			}))
			return errors.Join(err, badSend(c), nested, c.CallErrorHandler(errHandled), c.CallErrorHandler(nil), c.Free())
		},
		"S7-06": func(p *mpi.Process) error {
			calls := map[*mpi.Comm]int{}
			c, err := p.World().Dup()
			if err := errors.Join(err, c.SetErrorHandler(counting(calls))); err != nil {
				return err
			}
			code := p.AddErrorClass()
			return errors.Join(handled(c.CallErrorHandler(errCallback), mpi.ErrOther),
				handled(c.CallErrorHandler(&mpi.Error{Class: code}), code),
				check(calls[c] == 2, "%v", calls), c.Free(), ofClass(c.SetErrorHandler(mpi.ErrorsReturn), mpi.ErrComm),
				ofClass(c.CallErrorHandler(errCallback), mpi.ErrComm))
		},
		"S7-07": func(p *mpi.Process) error { // of the process, which is that of Self
			calls := map[*mpi.Comm]int{}
			p.SetErrorHandler(counting(calls))
			_, err := p.BufferDetach()
			c, errDup := p.World().Dup()
			if err := errors.Join(errDup, handled(err, mpi.ErrBuffer), handled(badSend(p.Self()), mpi.ErrRank), c.Free()); err != nil {
				return err
			}
			return errors.Join(handled(c.Barrier(), mpi.ErrComm), // a freed communicator has no handler
				check(calls[nil] == 2 && calls[p.Self()] == 1, "%v", calls), ofClass(badSend(p.World()), mpi.ErrRank))
		},
	})
}

// TestRequestErrorHandlers: a call on requests raises the error of an operation on its communicator.
func TestRequestErrorHandlers(t *testing.T) {
	inWorlds(t, 2, map[string]func(p *mpi.Process) error{
		"S7-10": func(p *mpi.Process) error {
			calls, w := map[*mpi.Comm]int{}, p.World()
			c, err := w.Dup()
			if err := errors.Join(err, c.SetErrorHandler(counting(calls))); err != nil {
				return err
			}
			errs := []error{}
			for i, x := range waits {
				long, err := mpi.Isend(c, []int{1, 2}, w.Rank(), 0)
				r, errRecv := mpi.Irecv(c, []int{0}, w.Rank(), 0)
				errs = append(errs, err, errRecv, handled(x.wait([]mpi.Request{long, r}), x.class),
					check(calls[c] == i+1 && len(calls) == 1, "%v", calls))
			}
			p.SetErrorHandler(counting(calls))
			_, err = staleRequest(c).Wait()
			errs = append(errs, handled(err, mpi.ErrRequest), check(calls[nil]+calls[p.Self()] == 1, "%v", calls))
			return errors.Join(append(errs, c.Free())...)
		},
		"S7-11": func(p *mpi.Process) error { // a persistent request, and Idup
			calls := map[*mpi.Comm]int{}
			k := mpi.NewKeyval(p, func(*mpi.Comm, int) (int, bool, error) { return 0, false, errCallback }, nil)
			c, err := p.World().Dup()
			if err := errors.Join(err, c.SetErrorHandler(counting(calls)), k.Set(c, p.World().Rank())); err != nil {
				return err
			}
			r, err := mpi.RecvInit(c, []int{0}, c.Rank(), 0)
			if err := errors.Join(err, r.Start(), mpi.Send(c, []int{1, 2}, c.Rank(), 0)); err != nil {
				return err
			}
			_, err = r.Wait()
			_, _, errDup := c.Idup()
			return errors.Join(handled(err, mpi.ErrTruncate), handled(errDup, mpi.ErrOther), check(calls[c] == 2, "%v", calls), r.Free(),
				k.Delete(c), c.Free())
		},
	})
}

// waits are the calls that complete both of two requests, of which the second fails.
var waits = []struct {
	class mpi.Class
	wait  func(rs []mpi.Request) error
}{
	{mpi.ErrTruncate, func(rs []mpi.Request) error {
		_, err := rs[0].Wait()
		_, failed := rs[1].Wait()
		return cmp.Or(err, failed)
	}},
	{mpi.ErrTruncate, func(rs []mpi.Request) (err error) {
		for _, r := range rs {
			for done := false; !done && err == nil; {
				_, done, err = r.Test()
			}
		}
		return err
	}},
	{mpi.ErrInStatus, func(rs []mpi.Request) error { return mpi.Waitall(rs, nil) }},
	{mpi.ErrTruncate, func(rs []mpi.Request) error {
		_, err := rs[0].WaitContext(context.Background())
		_, failed := rs[1].WaitContext(context.Background())
		return cmp.Or(err, failed)
	}},
	{mpi.ErrInStatus, func(rs []mpi.Request) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		return mpi.WaitallContext(ctx, rs, nil)
	}},
	{mpi.ErrTruncate, func(rs []mpi.Request) (err error) {
		for i := 0; i != mpi.Undefined && err == nil; {
			i, _, err = mpi.Waitany(rs)
		}
		return err
	}},
	{mpi.ErrInStatus, func(rs []mpi.Request) (err error) {
		for n := 0; n != mpi.Undefined && err == nil; {
			n, err = mpi.Waitsome(rs, make([]int, len(rs)), nil)
		}
		return err
	}},
}

// staleRequest returns a request that has been waited for.
func staleRequest(c *mpi.Comm) mpi.Request {
	r, _ := mpi.Isend(c, []int{1}, mpi.ProcNull, 0)
	_, _ = r.Wait()
	return r
}

// inherited: new communicators have the handler of their parent, or of the session.
func inherited(p *mpi.Process) error {
	h := counting(map[*mpi.Comm]int{})
	c, err := p.World().Dup()
	if err := errors.Join(err, c.SetErrorHandler(h)); err != nil {
		return err
	}
	var errs []error
	for i, f := range []func() (*mpi.Comm, error){
		c.Dup, func() (*mpi.Comm, error) { return c.Split(0, 0) }, func() (*mpi.Comm, error) { return c.Create(c.Group()) },
		func() (*mpi.Comm, error) { return c.CreateGroup(c.Group(), 0) },
		func() (*mpi.Comm, error) { return c.SplitType(mpi.TypeShared, 0, nil) },
	} {
		d, err := f()
		if err != nil {
			return err
		}
		got, err := d.ErrorHandler()
		errs = append(errs, err, check(got == h, "constructor %d: another handler", i), d.Free())
	}
	return errors.Join(append(errs, c.Free())...)
}

// TestSessionErrorHandler: a session has a handler, which communicators from its groups get.
func TestSessionErrorHandler(t *testing.T) {
	t.Run("S7-08", func(t *testing.T) {
		runSessionsOnly(t, 2, func(p *mpi.Process) error {
			s, err := p.OpenSession(nil)
			calls := map[*mpi.Comm]int{}
			h := counting(calls)
			if err := errors.Join(err, s.SetErrorHandler(h)); err != nil {
				return err
			}
			_, errGroup := s.Group("no such set")
			c, err := fromSet(s, "mpi://WORLD", "t")
			if err != nil {
				return err
			}
			got, err := c.ErrorHandler()
			errs := []error{err, check(got == h, "another handler"), handled(errGroup, mpi.ErrArg),
				handled(badSend(c), mpi.ErrRank), s.CallErrorHandler(nil), handled(s.CallErrorHandler(errCallback), mpi.ErrOther),
				handled(s.CallErrorHandler(&mpi.Error{Class: mpi.ErrTag}), mpi.ErrTag), s.Close()}
			return errors.Join(append(errs, check(calls[nil] == 3 && calls[c] == 1, "%v", calls),
				ofClass(s.SetErrorHandler(h), mpi.ErrSession), ofClass(s.CallErrorHandler(errCallback), mpi.ErrSession))...)
		})
	})
}

// TestErrorsAbort: the handlers that end the job do so for their communicator only.
func TestErrorsAbort(t *testing.T) {
	t.Run("S7-09", func(t *testing.T) {
		for _, h := range []mpi.ErrorHandler{mpi.ErrorsAreFatal, mpi.ErrorsAbort} {
			at, err := bootstrap.FromEnv(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			var aborted atomic.Int32
			at.Abort = func(int, string) error { aborted.Add(1); return errors.New("aborted") }
			p, err := mpi.Init(bootstrap.WithProcess(context.Background(), at), nil)
			if err != nil {
				t.Fatal(err)
			}
			c, err := p.World().Dup()
			err = errors.Join(err, c.SetErrorHandler(h), ofClass(badSend(p.World()), mpi.ErrRank), check(aborted.Load() == 0, "aborted"),
				ofClass(badSend(c), mpi.ErrRank), check(aborted.Load() == 1, "not aborted"), c.Free(), p.Finalize())
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// TestErrorHandlerConcurrent: handlers are set while other goroutines make calls that fail.
func TestErrorHandlerConcurrent(t *testing.T) {
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		done := make(chan error)
		go func() {
			var err error
			for range 1000 {
				err = errors.Join(err, ofClass(badSend(p.Self()), mpi.ErrRank))
			}
			done <- err
		}()
		h := mpi.NewErrorHandler(func(_ *mpi.Comm, err *mpi.Error) error { return err })
		var err error
		for range 500 {
			err = errors.Join(err, p.Self().SetErrorHandler(h), p.Self().SetErrorHandler(mpi.ErrorsReturn))
		}
		return errors.Join(err, <-done)
	})
}
