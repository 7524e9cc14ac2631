package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/ibrun/ibrun/mpi"
)

func main() {
	p, err := mpi.Join(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Leave()
	s, err := p.OpenSession(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if err := run(s, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// run adds up the ranks of the processes in a process set. A process outside the set does nothing.
func run(s *mpi.Session, name string) error {
	g, err := s.Group(name)
	if err != nil || g.Rank() == mpi.Undefined {
		return err
	}
	c, err := mpi.CommFromGroup(g, "org.example.sum", nil)
	if err != nil {
		return err
	}
	sum := []int{c.Rank()}
	if err := mpi.Allreduce(c, sum, sum, mpi.Sum); err != nil {
		return err
	}
	fmt.Println("rank", c.Rank(), "of", c.Size(), "in", name, "sum", sum[0])
	return c.Free()
}
