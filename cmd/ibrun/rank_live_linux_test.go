package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/mpi"
)

// hang is an MPI program that hangs. Rank 1 does for ever what its argument says, rank 0 waits for a message from it, and all
// others wait for all ranks. With "dup" rank 1 sleeps, rank 2 creates a communicator of all ranks, and the others duplicate
// one, which they cannot complete without rank 1.
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

// loopForEver makes no calls. The compiler must not inline it: then the instruction of its loop may have another line.
//
//go:noinline
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

// work reports progress until it is complete.
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

// runLong runs long: "work" reports progress, "traffic TIME" exchanges messages for that time and then waits, "eat" touches
// memory, and "exchange [FILE]" exchanges messages and checks them.
func runLong(args []string) error {
	switch args[0] {
	case "work":
		return work()
	case "eat":
		return eat()
	case "exchange":
		return exchange(args[1:])
	}
	return traffic(args[1])
}

// traffic is an MPI program that exchanges messages for a while and then waits for a message that is never sent. It fails as soon
// as a call returns an error, as most programs do.
func traffic(during string) error {
	d, err := time.ParseDuration(during)
	if err != nil {
		return err
	}
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	w := p.World()
	fmt.Println("ready", os.Getpid())
	in, out := make([]byte, 32<<10), make([]byte, 32<<10)
	next, previous := (w.Rank()+1)%w.Size(), (w.Rank()+w.Size()-1)%w.Size()
	for began := time.Now(); time.Since(began) < d; {
		if _, err := mpi.Sendrecv(w, out, next, 1, in, previous, 1); err != nil {
			return err
		}
	}
	_, err = mpi.Recv(w, in, previous, 2)
	return err
}

// eat uses more memory than there is, on rank 1.
func eat() error {
	fmt.Println("ready", os.Getpid())
	if os.Getenv("PMI_RANK") != "1" {
		napForEver()
	}
	var eaten [][]byte
	for {
		memory := make([]byte, 1<<20)
		for i := 0; i < len(memory); i += 4096 {
			memory[i] = 1
		}
		if eaten = append(eaten, memory); len(eaten) > 1<<20 {
			return errors.New("a tebibyte of memory was not too much")
		}
	}
}

// otherVersion initialises as the rank of an ibrun whose first message on the link has another version than this program's.
func otherVersion() error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	if err != nil {
		return err
	}
	if _, err := unix.Write(fds[0], []byte("\x01\x09{}")); err != nil {
		return err
	}
	// fds[0] remains open, as ibrun's end does.
	if err := os.Setenv("IBRUN_FD", strconv.Itoa(fds[1])); err != nil {
		return err
	}
	_, err = mpi.Init(context.Background(), nil)
	return err
}
