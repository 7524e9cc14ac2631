package mpi_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
)

const (
	floodSenders = 8
	floodBytes   = 1 << 10
	floodCap     = 64 << 20 // default of Config.UnexpectedBytes
)

// floodCount returns the total number of messages. Even the smaller number exceeds the limit of unexpected messages.
func floodCount() int {
	return soaktest.Choose(1_000_000, 96_000)
}

// flood makes ranks 1 to 8 send to rank 0, which sleeps at first, and then waits for a late message from rank 9. Its
// memory grows by no more than the limit meanwhile; then it receives everything in order.
func flood(p *mpi.Process) error {
	const tagFlood, tagGo = 1, 2
	w, each := p.World(), floodCount()/floodSenders
	if err := w.Barrier(); err != nil {
		return err
	}
	switch me := w.Rank(); {
	case me == 0:
	case me <= floodSenders:
		x := make([]byte, floodBytes)
		for i := range each {
			copy(x, strconv.Itoa(i)+"\n")
			if err := mpi.Send(w, x, 0, tagFlood); err != nil {
				return fmt.Errorf("send %d: %w", i, err)
			}
		}
		return w.Barrier()
	default:
		time.Sleep(soaktest.Choose(3*time.Second, 1200*time.Millisecond))
		if err := mpi.Send(w, []byte{1}, 0, tagGo); err != nil {
			return err
		}
		return w.Barrier()
	}
	debug.FreeOSMemory()
	before, err := resident("VmRSS")
	if err == nil {
		err = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak is what there is now
	}
	if err != nil {
		return err
	}
	time.Sleep(soaktest.Choose(time.Second, 300*time.Millisecond))
	if _, err := mpi.Recv(w, make([]byte, 1), floodSenders+1, tagGo); err != nil {
		return err
	}
	var next [floodSenders + 1]int
	x := make([]byte, floodBytes)
	for range each * floodSenders {
		st, err := mpi.Recv(w, x, mpi.AnySource, tagFlood)
		if err != nil {
			return err
		}
		text, _, _ := strings.Cut(string(x[:20]), "\n")
		if text != strconv.Itoa(next[st.Source]) || mpi.Count[byte](st) != floodBytes {
			return fmt.Errorf("message %d of rank %d came as %q of %d bytes", next[st.Source], st.Source, text, mpi.Count[byte](st))
		}
		next[st.Source]++
	}
	peak, err := resident("VmHWM")
	if err != nil {
		return err
	}
	fmt.Printf("%d messages, and the receiver grew by %d KiB\n", each*floodSenders, (peak-before)>>10)
	if peak-before > floodCap {
		return fmt.Errorf("the receiver grew by %d bytes, more than %d", peak-before, floodCap)
	}
	return w.Barrier()
}

// resident returns a value of this process's memory usage in bytes.
func resident(name string) (int, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), name+":")
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[1] != "kB" {
		return 0, fmt.Errorf("no %s in /proc/self/status", name)
	}
	n, err := strconv.Atoi(fields[0])
	return n << 10, err
}

// floods sends a receiver that does not receive more than it may keep. With IBRUN_SOAK=1 it sends a million messages.
func floods(t *testing.T, transport string) {
	t.Setenv("IBRUN_TRANSPORT", transport)
	uncheck(t)
	began := time.Now()
	end, exits, output := launch(t, floodSenders+2, "flood", nil)
	if end != "" {
		t.Errorf("the job ended with %q", end)
	}
	for rank, code := range exits {
		if code != 0 {
			t.Errorf("rank %d ended with %d", rank, code)
		}
	}
	t.Logf("%s%v", output, time.Since(began).Round(time.Millisecond))
}
