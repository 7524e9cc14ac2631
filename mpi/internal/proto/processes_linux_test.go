package proto

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/shm"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// peerVariable is set in the second process of a pair, which runs the same test binary. It holds
// the process id of the first one, and the number and size of the round trips.
const peerVariable = "PROTO_TEST_PEER"

func TestMain(m *testing.M) {
	if text := os.Getenv(peerVariable); text != "" {
		go func() { // the other end of stdin closes with the first process
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(3)
		}()
		if err := runSecond(text); err != nil {
			fmt.Fprintln(os.Stderr, "second process:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func runSecond(text string) error {
	var first, n, size int
	if _, err := fmt.Sscan(text, &first, &n, &size); err != nil {
		return err
	}
	e, err := shmEngine(context.Background(), 1, first)
	if err != nil {
		return err
	}
	switch {
	case size >= 0:
		err = pingPong(e, 1, n, make([]byte, size), make([]byte, size))
	case size < -1:
		err = pingPongColumns(e, 1, n, -size)
	default:
		err = exchangeSizes(e, 1)
	}
	e.Processes().AllowFinalize()
	return errors.Join(err, e.FlushSends(), e.Close())
}

func shmEngine(ctx context.Context, self, first int) (*Engine, error) {
	tr := &shm.Transport{Local: []int{0, 1}, Tracer: os.Getppid()}
	copy(tr.Key[:], "test "+strconv.Itoa(first))
	d, err := tr.Open(ctx, &fabric.Config{Self: self, Size: 2})
	if err != nil {
		return nil, err
	}
	return New(Config{Domain: d, Self: self, Size: 2, Oversubscribed: true})
}

// pair starts the second process, runs f as the first, and waits for both.
func pair(t testing.TB, n, size int, f func(e *Engine) error) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %d", peerVariable, os.Getpid(), n, size))
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // held open by cmd
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e, err := shmEngine(waittest.Context(t), 0, os.Getpid())
	if err == nil {
		err = f(e)
		e.Processes().AllowFinalize()
		err = errors.Join(err, e.FlushSends())
	}
	if err != nil {
		t.Error(err)
		err = cmd.Process.Kill()
	}
	if err = errors.Join(err, cmd.Wait()); err != nil {
		t.Error(err)
	}
	if e != nil {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

func pingPong(e *Engine, self, n int, s, r []byte) error {
	for range n {
		if self == 0 {
			if err := e.Send(to(0, 1, 5), s, Standard); err != nil {
				return err
			}
		}
		if _, err := e.Recv(from(1-self, 5), r); err != nil {
			return err
		}
		if self == 1 {
			if err := e.Send(to(1, 0, 5), s, Standard); err != nil {
				return err
			}
		}
	}
	return nil
}

// exchangeSizes sends messages of all protocols in both directions at the same time.
func exchangeSizes(e *Engine, self int) error {
	for round := range 3 {
		var hs []Handle
		var in [][]byte
		var parcels []testMessage
		for i, size := range []int{0, 8, 1000, 8191, 16384, 30000, 70000, 300000, 1 << 20, 5<<20 + 5} {
			p := testMessage{from: 1 - self, tag: int32(i), size: size, room: size - size%2*3, number: i + round}
			out := make([]byte, size)
			p.fill(out)
			h, err := e.Isend(to(self, 1-self, int32(i)), out, Mode((i+round)%2))
			if err != nil {
				return err
			}
			b := guarded(p.room)
			in, parcels = append(in, b), append(parcels, p)
			hs = append(hs, h, e.Irecv(from(1-self, int32(i)), b[:p.room]))
		}
		for i, h := range slices.Backward(hs) {
			st, err := e.Requests().Wait(h)
			if i%2 == 1 {
				err = parcels[i/2].check(in[i/2], st, err)
			}
			if err != nil {
				return err
			}
		}
	}
	return pingPong(e, self, 1, nil, nil)
}

func TestTwoProcesses(t *testing.T) {
	pair(t, 0, -1, func(e *Engine) error { return exchangeSizes(e, 0) })
}

// BenchmarkPingPong measures a round trip between two processes.
func BenchmarkPingPong(b *testing.B) {
	for _, size := range []int{8, 8 << 10, 64 << 10, 1 << 20} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			s, r := make([]byte, size), make([]byte, size)
			b.SetBytes(int64(2 * size))
			pair(b, b.N, size, func(e *Engine) error {
				b.ResetTimer() // the processes are connected
				return pingPong(e, 0, b.N, s, r)
			})
		})
	}
}

// pingPongColumns is pingPong with columns of 8-byte elements of a matrix with 16 columns. size is
// the packed length.
func pingPongColumns(e *Engine, self, n, size int) error {
	const columns = 16
	t, err := datatype.Vector(int64(size/8), 1, columns, datatype.OfKind(datatype.Float64))
	if err != nil {
		return err
	}
	t.Commit()
	s, err := t.Buffer(make([]byte, size*columns), 3*8, 1)
	if err != nil {
		return err
	}
	r, err := t.Buffer(make([]byte, size*columns), 5*8, 1)
	if err != nil {
		return err
	}
	for range n {
		if self == 0 {
			if err := e.SendData(to(0, 1, 5), &s, Standard, nil); err != nil {
				return err
			}
		}
		if _, err := e.RecvData(from(1-self, 5), &r, nil); err != nil {
			return err
		}
		if self == 1 {
			if err := e.SendData(to(1, 0, 5), &s, Standard, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// BenchmarkColumns measures a round trip of a column between two processes.
func BenchmarkColumns(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			b.SetBytes(int64(2 * size))
			pair(b, b.N, -size, func(e *Engine) error {
				b.ResetTimer() // the processes are connected
				return pingPongColumns(e, 0, b.N, size)
			})
		})
	}
}
