package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/ibrun/ibrun/mpi"
)

// hang is a program with messages that hangs: rank 1 does what is said for ever, rank 0 waits for its message, and all others
// for all. With "dup" rank 1 naps, rank 2 makes a communicator of all, and the others duplicate one, which they cannot without
// it.
func hang(what string) error {
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	w := p.World()
	if what != "first" {
		if err := w.Barrier(); err != nil {
			return err
		}
	}
	fmt.Println("ready", os.Getpid())
	switch {
	case what == "first" && w.Rank() == 0:
		napForEver()
	case what == "first":
		err = w.Barrier()
	case what == "dup" && w.Rank() == 2:
		_, err = mpi.CommFromGroup(w.Group(), "all", nil)
	case what == "dup" && w.Rank() != 1:
		_, err = w.Dup()
	case w.Rank() == 0:
		_, err = mpi.Recv(w, make([]byte, 8), 1, 7)
	case w.Rank() > 1:
		err = w.Barrier()
	case what == "loop":
		loopForEver()
	default:
		napForEver()
	}
	return err
}

// loopForEver calls nothing.
func loopForEver() {
	for i := 1; i != 0; {
		i = i&1 | 1
	}
}

func napForEver() {
	for {
		time.Sleep(time.Hour)
	}
}

// work reports progress up to the end.
func work() error {
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	for done := range 20 {
		if err := p.Progress(done+1, 20); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
		if p.World().Rank() == 0 {
			fmt.Println("line", done)
		}
	}
	return p.Finalize()
}
