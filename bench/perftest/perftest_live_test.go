package perftest

import (
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/ibrun/ibrun/soft-roce/live"
)

// pipe is one end of a connection.
type pipe struct {
	io.Reader
	io.Writer
}

// runBoth measures with both sides in this process, and returns the number of allocations.
func runBoth(t *testing.T, test Test) (figure float64, mallocs uint64) {
	t.Helper()
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	served := make(chan error, 1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() {
		_, err := Run(test, Server, pipe{r1, w2})
		w2.CloseWithError(err)
		served <- err
	}()
	figure, err := Run(test, Client, pipe{r2, w1})
	w1.CloseWithError(err)
	if err := errors.Join(err, <-served); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	return figure, after.Mallocs - before.Mallocs
}

// TestLiveOps: every measurement works through both providers, and its loop allocates nothing.
func TestLiveOps(t *testing.T) {
	device := live.Device(t)
	for _, provider := range []string{"rxe", "libibverbs"} {
		for _, op := range Ops() {
			t.Run(provider+"/"+op.Name, func(t *testing.T) {
				test := Test{Op: op.Name, Device: device, Provider: provider, Size: 8,
					Settings: Settings{Depth: 1, Moderation: 1, MTU: 1024}}
				if op.Rate() {
					test.Depth, test.Moderation = 16, 10
				}
				const few = 20
				many := 10 * few
				if op.verb == send {
					many = receives + few // some receives are posted again
				}
				test.Iterations = few
				figure, once := runBoth(t, test)
				if figure <= 0 {
					t.Errorf("the figure is %v", figure)
				}
				test.Iterations = many
				_, again := runBoth(t, test)
				if again > once+uint64(many-few)/2 { // one per iteration would be twice that; the setup itself varies
					t.Errorf("%d allocations in %d iterations, %d in %d", once, few, again, many)
				}
			})
		}
	}
}

// TestLiveInline: messages within the inline size need no scatter/gather list.
func TestLiveInline(t *testing.T) {
	device := live.Device(t)
	for _, op := range []string{"send_lat", "write_lat", "write_bw"} {
		test := Test{Op: op, Device: device, Size: 8, Iterations: 100,
			Settings: Settings{Depth: 1, Moderation: 1, Inline: 32, MTU: 1024}}
		if figure, _ := runBoth(t, test); figure <= 0 {
			t.Errorf("%s: the figure is %v", op, figure)
		}
	}
}
