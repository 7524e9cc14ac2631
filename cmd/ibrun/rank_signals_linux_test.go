package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ibrun/ibrun/mpi"
)

// brief initialises and finalizes.
func brief() error {
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	return p.Finalize()
}

// notify is a program that handles signals by [signal.NotifyContext]. After a signal rank 0 returns, perhaps after Finalize. All
// other ranks are in a receive from rank 0, which never sends.
func notify(how string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	w := p.World()
	if err := w.Barrier(); err != nil {
		return err
	}
	fmt.Println("ready", os.Getpid())
	if w.Rank() > 0 {
		_, err := mpi.Recv(w, make([]byte, 8), 0, 7)
		return err
	}
	<-ctx.Done()
	if how == "finalize" {
		return p.Finalize()
	}
	return nil
}
