package sockets

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/freeport"
	"github.com/ibrun/ibrun/internal/waittest"
)

// TestFigures: both sides compute the same number of rounds, and every size gets a positive figure.
func TestFigures(t *testing.T) {
	for _, op := range Ops() {
		port, err := freeport.TCP()
		if err != nil {
			t.Fatal(err)
		}
		test := Test{Op: op, Sizes: []int{1, 300000}, Time: 50 * time.Microsecond, Port: port}
		served := make(chan error, 1)
		go func() { served <- Serve(test) }()
		var figures map[int]float64
		waittest.Until(t, "the server listens", func() bool {
			if figures, err = Call(test); errors.Is(err, syscall.ECONNREFUSED) && len(served) != 0 {
				t.Fatal(<-served)
			}
			return !errors.Is(err, syscall.ECONNREFUSED)
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := waittest.Receive(t, "the server returns", served); err != nil {
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
