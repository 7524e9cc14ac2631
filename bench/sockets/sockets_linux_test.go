package sockets

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// TestFigures: both sides compute the same number of rounds, and every size gets a positive figure.
func TestFigures(t *testing.T) {
	for _, op := range Ops() {
		port := 10000 + rand.IntN(20000) // Linux gives connections of other programs ports from 32768 on
		test := Test{Op: op, Sizes: []int{1, 300000}, Time: 50 * time.Microsecond, Port: port}
		served := make(chan error)
		go func() { served <- Serve(test) }()
		var figures map[int]float64
		var err error
		for err = syscall.ECONNREFUSED; errors.Is(err, syscall.ECONNREFUSED); {
			select {
			case err := <-served:
				t.Fatal(err)
			case <-time.After(time.Millisecond):
			}
			figures, err = Call(test)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		for _, size := range test.Sizes {
			if figures[size] <= 0 {
				t.Errorf("%s of %d bytes: %v", op, size, figures[size])
			}
		}
	}
}

func TestRefused(t *testing.T) {
	for _, test := range []Test{{Op: "barrier"}, {Op: "bw", Sizes: []int{0}}} {
		if err := Serve(test); err == nil {
			t.Errorf("%+v: Serve returned no error", test)
		}
		if _, err := Call(test); err == nil {
			t.Errorf("%+v: Call returned no error", test)
		}
	}
}
