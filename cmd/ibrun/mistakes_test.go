package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/mpi"
)

// mistakes are programs of two ranks, each with one mistake. A program that returns an error prints it and exits with 1.
var mistakes = map[string]func(p *mpi.Process, c *mpi.Comm, rank int) error{
	// Collectives that the ranks call differently.
	"lengths": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		x := make([]float64, 10+rank)
		return mpi.Allreduce(c, x, x, mpi.Sum)
	},
	"operations": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		x := make([]float64, 10)
		return mpi.Allreduce(c, x, x, []mpi.Op{mpi.Sum, mpi.Max}[rank])
	},
	"types": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		if rank == 0 {
			return mpi.Bcast(c, make([]float64, 4), 0)
		}
		return mpi.Bcast(c, make([]int64, 4), 0)
	},
	"roots": func(_ *mpi.Process, c *mpi.Comm, rank int) error { return mpi.Bcast(c, make([]int, 4), rank) },
	"order": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		if rank == 0 {
			return errors.Join(c.Barrier(), mpi.Bcast(c, make([]int, 4), 0))
		}
		return errors.Join(mpi.Bcast(c, make([]int, 4), 0), c.Barrier())
	},
	"gatherv": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		return mpi.Gatherv(c, make([]int, 9), []int{1, 2}, nil, make([]int, 1+2*rank), 0)
	},
	"scatterv": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		return mpi.Scatterv(c, make([]int, 1+2*rank), make([]int, 9), []int{1, 2}, nil, 0)
	},
	"alltoallv": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		return mpi.Alltoallv(c, make([]int, 9), []int{1, 1}, nil, make([]int, 9), []int{1, 1 + rank}, nil)
	},
	"allgatherv": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		return mpi.Allgatherv(c, make([]int, 9), []int{2, 2 + rank}, nil, make([]int, 2+rank))
	},
	"reduce scatter": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		return mpi.ReduceScatter(c, make([]int, 9), make([]int, 4), []int{2 - rank, 2 + rank}, mpi.Sum)
	},
	"root out of range": func(_ *mpi.Process, c *mpi.Comm, rank int) error { return mpi.Bcast(c, make([]int, 4), 7*rank) },
	"nil operation": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		return mpi.Scan(c, make([]int, 1), make([]int, 1), []mpi.Op{mpi.Sum, nil}[rank])
	},
	"nil buffer at the root": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		return mpi.Reduce(c, nil, make([]int, 1), mpi.Sum, 0)
	},
	"operation on a wrong type": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		return mpi.Allreduce(c, make([]float64, 1), make([]float64, 1), mpi.Bxor)
	},
	"different creations": func(_ *mpi.Process, c *mpi.Comm, rank int) (err error) {
		if rank == 0 {
			_, err = c.Dup()
		} else {
			_, err = c.Split(0, 0)
		}
		return err
	},
	"negative color": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		_, err := c.Split(-5, 0)
		return err
	},
	"collective on one rank": func(p *mpi.Process, c *mpi.Comm, rank int) error {
		if rank == 0 {
			return c.Barrier()
		}
		return nil // Finalize
	},
	"two goroutines": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		if rank == 1 {
			select {}
		}
		first := make(chan error, 2)
		for range 2 {
			go func() { first <- c.Barrier() }()
		}
		return <-first
	},

	// Communicators.
	"use after free": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		d, err := c.Dup()
		if err = errors.Join(err, d.Free()); err != nil {
			return err
		}
		return mpi.Send(d, []int{1}, 0, 0)
	},
	"double free": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		d, err := c.Dup()
		return errors.Join(err, d.Free(), d.Free())
	},
	"free of World": func(_ *mpi.Process, c *mpi.Comm, rank int) error { return c.Free() },
	"free with a pending receive": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		r, err := mpi.Irecv(d, make([]int, 1), 1-rank, 0)
		if err = errors.Join(err, d.Free()); err == nil {
			_, err = r.Wait()
		}
		return err
	},
	"nil communicator": func(*mpi.Process, *mpi.Comm, int) error { return mpi.Send(nil, []int{1}, 0, 0) },
	"interleaved communicators": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		if rank == 0 {
			return errors.Join(c.Barrier(), d.Barrier())
		}
		return errors.Join(d.Barrier(), c.Barrier())
	},
	"different tags of groups": func(p *mpi.Process, c *mpi.Comm, rank int) error {
		_, err := mpi.CommFromGroup(c.Group(), fmt.Sprint("tag ", rank), nil)
		return err
	},

	// Messages.
	"type of a message": func(_ *mpi.Process, c *mpi.Comm, rank int) (err error) {
		if rank == 0 {
			err = mpi.Send(c, []float64{1}, 1, 0)
		} else {
			_, err = mpi.Recv(c, make([]int32, 2), 0, 0)
		}
		return err
	},
	"truncated": func(_ *mpi.Process, c *mpi.Comm, rank int) (err error) {
		if rank == 0 {
			err = mpi.Send(c, make([]int, 3), 1, 0)
		} else {
			_, err = mpi.Recv(c, make([]int, 2), 0, 0)
		}
		return err
	},
	"rank out of range": func(_ *mpi.Process, c *mpi.Comm, rank int) error { return mpi.Send(c, []int{1}, 2, 0) },
	"tag out of range":  func(_ *mpi.Process, c *mpi.Comm, rank int) error { return mpi.Send(c, []int{1}, 0, -1) },
	"overlapping buffers": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		x := make([]int, 3)
		_, err := mpi.Sendrecv(c, x[:2], 1-rank, 0, x[1:], 1-rank, 0)
		return err
	},
	"Bsend without a buffer": func(_ *mpi.Process, c *mpi.Comm, rank int) error { return mpi.Bsend(c, []int{1}, 1-rank, 0) },
	"never received": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		if rank == 0 {
			return mpi.Send(c, []int{1}, 1, 0)
		}
		return nil
	},
	"never waited for": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		_, err := mpi.Irecv(c, make([]int, 1), 1-rank, 0)
		return err
	},
	"Wait twice": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		r, err := mpi.Irecv(c, make([]int, 1), mpi.ProcNull, 0)
		if err == nil {
			_, err = r.Wait()
		}
		if err == nil {
			_, err = r.Wait()
		}
		return err
	},
	"Start of the zero request": func(*mpi.Process, *mpi.Comm, int) error { return mpi.Request{}.Start() },
	"Start twice": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		r, err := mpi.RecvInit(c, make([]int, 1), 1-rank, 0)
		return errors.Join(err, r.Start(), r.Start())
	},

	// Deadlocks.
	"both receive": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		_, err := mpi.Recv(c, make([]int, 1), 1-rank, 0)
		return err
	},
	"both receive, a goroutine sleeps": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		go time.Sleep(time.Second)
		_, err := mpi.Recv(c, make([]int, 1), 1-rank, 0)
		return err
	},
	"both send":      func(_ *mpi.Process, c *mpi.Comm, rank int) error { return mpi.Ssend(c, make([]int, 1), 1-rank, 0) },
	"send to itself": func(_ *mpi.Process, c *mpi.Comm, rank int) error { return mpi.Ssend(c, make([]int, 1), rank, 0) },
	"other tag": func(_ *mpi.Process, c *mpi.Comm, rank int) (err error) {
		if rank == 0 {
			err = mpi.Ssend(c, []int{1}, 1, 1)
		} else {
			_, err = mpi.Recv(c, make([]int, 1), 0, 2)
		}
		return err
	},
	"probe": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		_, err := c.Probe(mpi.AnySource, mpi.AnyTag)
		return err
	},

	// The end of a rank.
	"Finalize twice": func(p *mpi.Process, c *mpi.Comm, rank int) error { return p.Finalize() },
	"use after Finalize": func(p *mpi.Process, c *mpi.Comm, rank int) error {
		return errors.Join(p.Finalize(), c.Barrier())
	},
	"abort": func(p *mpi.Process, c *mpi.Comm, rank int) error {
		if rank == 1 {
			return p.Abort(3)
		}
		return c.Barrier()
	},
	"exit 0": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		if rank == 1 {
			os.Exit(0)
		}
		_, err := mpi.Recv(c, make([]int, 1), 1, 0)
		return err
	},
	"exit 3": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		err := c.Barrier()
		if rank == 1 {
			os.Exit(3)
		}
		return errors.Join(err, c.Barrier())
	},
	"panic": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		err := c.Barrier()
		if rank == 1 {
			panic("out of luck")
		}
		return errors.Join(err, c.Barrier())
	},
	"stack overflow": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		err := c.Barrier()
		if rank == 1 {
			err = fmt.Errorf("%d", overflow(1))
		}
		return errors.Join(err, c.Barrier())
	},
	"signal": func(_ *mpi.Process, c *mpi.Comm, rank int) error {
		err := c.Barrier()
		if rank == 1 {
			err = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return errors.Join(err, c.Barrier())
	},
}

// overflow uses up the stack. The condition never holds.
func overflow(n int) int {
	if n < 0 {
		return 0
	}
	return overflow(n+1) + n
}

// mistake runs one of the mistakes, and then finalizes.
func mistake(name string) error {
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	if err := mistakes[name](p, p.World(), p.World().Rank()); err != nil {
		return err
	}
	return p.Finalize()
}
