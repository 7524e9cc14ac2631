package mpi_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestRecvValueContext: a call that ends with its context takes no message, also one that is there. Later calls receive it.
func TestRecvValueContext(t *testing.T) {
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		c := p.World()
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		sleeping, stop := context.WithCancelCause(context.Background())
		go stop(errStop)
		v, _, err := mpi.RecvValueContext[string](sleeping, c, 0, 1)
		errs := []error{check(errors.Is(err, context.Canceled) && errors.Is(err, errStop) && v == "", "%q, %v", v, err)}
		for _, s := range []string{"one", "two"} {
			errs = append(errs, mpi.SendValue(c, s, 0, 1))
		}
		v, st, err := mpi.RecvValueContext[string](ctx, c, 0, 1)
		errs = append(errs, err, check(v == "one" && st.Source == 0 && st.Tag == 1, "%q, %+v", v, st))
		cancel(errStop)
		_, _, err = mpi.RecvValueContext[string](ctx, c, 0, 1)
		errs = append(errs, check(errors.Is(err, errStop), "the context has ended: %v", err))
		v, _, err = mpi.RecvValueContext[string](context.Background(), c, 0, 1)
		return errors.Join(append(errs, err, check(v == "two", "%q", v))...)
	})
}
