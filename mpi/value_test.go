package mpi_test

import (
	"errors"
	"fmt"
	"log"
	"math/big"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// point is a struct with padding.
type point struct {
	Kind int8
	X, Y float64
}

type label string

// fragile has methods that fail or panic.
type fragile struct{ How string }

func (f fragile) MarshalBinary() ([]byte, error) {
	switch f.How {
	case "fails":
		return nil, errors.New("it fails")
	case "panics":
		panic("it panics")
	}
	return []byte(f.How), nil
}

func (f *fragile) UnmarshalBinary(b []byte) error {
	f.How = string(b)
	switch f.How {
	case "bad":
		return errors.New("it fails")
	case "worse":
		panic("it panics")
	}
	return nil
}

// sameEverywhere checks all calls of values with one value at every rank of two.
func sameEverywhere[T any](c *mpi.Comm, v T) error {
	peer := 1 - c.Rank()
	var sent error
	if c.Rank() == 0 {
		sent = mpi.SendValue(c, v, peer, 1)
	}
	x, st, err := mpi.RecvValue[T](c, peer, 1)
	if c.Rank() == 1 {
		sent = mpi.SendValue(c, v, peer, 1)
	}
	if err := errors.Join(sent, err, check(reflect.DeepEqual(x, v) && st.Source == peer,
		"received %v from %v, want %v", x, st, v)); err != nil {
		return err
	}
	two := []T{v, v}
	var in T
	if c.Rank() == 1 {
		in = v
	}
	x, err1 := mpi.BcastValue(c, in, 1)
	all, err2 := mpi.AllgatherValue(c, v)
	turned, err3 := mpi.AlltoallValue(c, two)
	at, err4 := mpi.GatherValue(c, v, 1)
	part, err5 := mpi.ScatterValue(c, two, 1)
	return errors.Join(err1, err2, err3, err4, err5, check(reflect.DeepEqual(x, v), "broadcast %v, want %v", x, v),
		check(reflect.DeepEqual(all, two) && reflect.DeepEqual(turned, two), "all %v and %v, want %v", all, turned, two),
		check(reflect.DeepEqual(at, two) == (c.Rank() == 1) && (at == nil) == (c.Rank() == 0), "gathered %v", at),
		check(reflect.DeepEqual(part, v), "scattered %v, want %v", part, v))
}

// TestValues: values of all forms arrive as they were, through every call.
func TestValues(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		c := p.World()
		return errors.Join(sameEverywhere(c, 3.5), sameEverywhere(c, true), sameEverywhere(c, point{1, 2, 3}),
			sameEverywhere(c, [3]int16{1, 2, 3}), sameEverywhere(c, "text \u4e16"), sameEverywhere(c, label("")),
			sameEverywhere(c, []point{{1, 2, 3}, {4, 5, 6}}), sameEverywhere(c, []byte("bytes")),
			sameEverywhere(c, map[string][]int{"a": {1}, "b": nil}), sameEverywhere(c, []string{"a", "b"}),
			sameEverywhere(c, netip.MustParseAddr("fe80::1%eth0")), sameEverywhere(c, &fragile{"whole"}),
			sameEverywhere(c, fragile{strings.Repeat("long", 50000)}), sameEverywhere(c, big.NewInt(-7)))
	})
}

// TestValuesDiffer: each rank's value has another length.
func TestValuesDiffer(t *testing.T) {
	mpitest.Run(t, 3, func(p *mpi.Process) error {
		c := p.World()
		text := func(from, to int) string { return strings.Repeat(fmt.Sprint(from, to), 10*from+to) }
		var row, col []string
		for i := range 3 {
			row, col = append(row, text(c.Rank(), i)), append(col, text(i, c.Rank()))
		}
		got, err1 := mpi.AlltoallValue(c, row)
		all, err2 := mpi.AllgatherValue(c, row[0])
		part, err3 := mpi.ScatterValue(c, row, 2)
		return errors.Join(err1, err2, err3, check(slices.Equal(got, col), "got %q, want %q", got, col),
			check(slices.Equal(all, []string{text(0, 0), text(1, 0), text(2, 0)}), "all are %q", all),
			check(part == text(2, c.Rank()), "part %q", part))
	})
}

// TestValueAndSlice: a value of elements and a slice of one match.
func TestValueAndSlice(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		c := p.World()
		if c.Rank() == 0 {
			x := []float64{0}
			_, err := mpi.Recv(c, x, 1, 0)
			return errors.Join(err, mpi.Send(c, []int32{1, 2, 3}, 1, 0), check(x[0] == 1.5, "received %v", x))
		}
		err := mpi.SendValue(c, 1.5, 0, 0)
		x, st, err2 := mpi.RecvValue[[]int32](c, mpi.AnySource, mpi.AnyTag)
		none, _, err3 := mpi.RecvValue[string](c, mpi.ProcNull, 0)
		return errors.Join(err, err2, err3, mpi.SendValue(c, "x", mpi.ProcNull, 0),
			check(slices.Equal(x, []int32{1, 2, 3}) && st.Bytes() == 12 && none == "", "received %v and %q", x, none))
	})
}

// TestWrongValues: what cannot be encoded or decoded is an error, and the communicator stays usable.
func TestWrongValues(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		c := p.World()
		peer, root := 1-c.Rank(), c.Rank() == 0
		var errs []error
		fail := func(err error) { errs = append(errs, ofClass(err, mpi.ErrType)) }
		for _, how := range []string{"fails", "panics"} {
			v := fragile{"good"}
			if root {
				v.How = how
			}
			if root {
				fail(mpi.SendValue(c, v, peer, 0))
			}
			fail(second(mpi.BcastValue(c, v, 0)))
			fail(second(mpi.AllgatherValue(c, v)))
			fail(second(mpi.ScatterValue(c, []fragile{v, v}, 0)))
			_, err := mpi.GatherValue(c, v, 1)
			fail(err)
			if _, err = mpi.AlltoallValue(c, []fragile{v, {"good"}}); root {
				fail(err)
			}
		}
		fail(mpi.SendValue(c, func() {}, peer, 0))
		fail(mpi.SendValue[*fragile](c, nil, peer, 0))
		for _, how := range []string{"bad", "worse"} {
			errs = append(errs, mpi.SendValue(c, fragile{how}, peer, 0))
			_, _, err := mpi.RecvValue[fragile](c, peer, 0)
			fail(err)
		}
		errs = append(errs,
			mpi.SendValue(c, "12345", peer, 0), mpi.SendValue(c, "12345", peer, 1), mpi.SendValue(c, "1", peer, 2))
		_, _, err1 := mpi.RecvValue[int32](c, peer, 0)
		_, _, err2 := mpi.RecvValue[[]int16](c, peer, 1)
		_, _, err3 := mpi.RecvValue[map[int]int](c, peer, 2)
		fail(err1)
		fail(err2)
		fail(err3)
		errs = append(errs, ofClass(second(mpi.AlltoallValue(c, []int{1})), mpi.ErrCount), sameEverywhere(c, "usable"))
		_, _, err := mpi.RecvValue[int](nil, 0, 0)
		return errors.Join(append(errs, ofClass(err, mpi.ErrComm), ofClass(mpi.SendValue(nil, 1, 0, 0), mpi.ErrComm),
			ofClass(second(mpi.BcastValue(nil, 1, 0)), mpi.ErrComm), ofClass(second(mpi.BcastValue(c, 1, 2)), mpi.ErrRoot))...)
	})
}

// A string and a map need no length at the receiver.
func ExampleSendValue() {
	err := mpitest.Ranks(2, func(p *mpi.Process) error {
		world := p.World()
		if world.Rank() == 0 {
			return mpi.SendValue(world, map[string]int{"steps": 100}, 1, 0)
		}
		v, _, err := mpi.RecvValue[map[string]int](world, 0, 0)
		fmt.Println(v)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: map[steps:100]
}
