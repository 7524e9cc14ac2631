package proto_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime/pprof"
	"strconv"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/shm"
	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// TestMain lets the test binary also be the second process of a pair.
func TestMain(m *testing.M) {
	if os.Getenv("PROTO_PEER") != "" {
		n, err := strconv.Atoi(os.Getenv("PROTO_PEER"))
		if err == nil {
			err = partner(n)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "partner:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func engine(self int, key [32]byte) (*proto.Engine, error) {
	tr := &shm.Transport{Local: []int{0, 1}, Key: key, Tracer: os.Getppid()}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	d, err := tr.Open(ctx, &fabric.Config{Self: self, Size: 2})
	if err != nil {
		return nil, err
	}
	return proto.New(proto.Config{Domain: d, Self: self, Size: 2})
}

func keyOf(pid int) (k [32]byte) {
	copy(k[:], fmt.Sprint("test key ", pid))
	return k
}

func pingpong(e *proto.Engine, self, n, size int) (time.Duration, error) {
	s, r := make([]byte, size), make([]byte, size)
	to := proto.Route{Context: 1, Peer: int32(1 - self), Rank: int32(self), Tag: 5}
	from := proto.Route{Context: 1, Rank: int32(1 - self), Tag: 5}
	start := time.Now()
	for range n {
		if self == 0 {
			if err := e.Send(to, s, proto.Standard); err != nil {
				return 0, err
			}
		}
		if _, err := e.Recv(from, r); err != nil {
			return 0, err
		}
		if self == 1 {
			if err := e.Send(to, s, proto.Standard); err != nil {
				return 0, err
			}
		}
	}
	return time.Since(start), nil
}

func stream(e *proto.Engine, self, n, size int) (time.Duration, error) {
	bufs := make([]byte, size)
	hs := make([]proto.Handle, 64)
	ack := make([]byte, 4)
	to := proto.Route{Context: 1, Peer: int32(1 - self), Rank: int32(self), Tag: 5}
	from := proto.Route{Context: 1, Rank: int32(1 - self), Tag: 5}
	start := time.Now()
	for range n {
		for i := range hs {
			if self == 0 {
				h, err := e.Isend(to, bufs, proto.Standard)
				if err != nil {
					return 0, err
				}
				hs[i] = h
			} else {
				hs[i] = e.Irecv(from, bufs)
			}
		}
		for _, h := range hs {
			if _, err := e.Wait(h); err != nil {
				return 0, err
			}
		}
		if self == 0 {
			if _, err := e.Recv(from, ack); err != nil {
				return 0, err
			}
		} else if err := e.Send(to, ack, proto.Standard); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

var sizes = []int{8}

func count(size int) int { return max(20, min(2000000, (2000<<20)/(size+2000))) }

func partner(parent int) error {
	if f := os.Getenv("PROTO_PROF"); f != "" {
		w, _ := os.Create(f)
		pprof.StartCPUProfile(w)
		defer pprof.StopCPUProfile()
	}
	e, err := engine(1, keyOf(parent))
	if err != nil {
		return err
	}
	for range 3 {
		for _, s := range sizes {
			if _, err := pingpong(e, 1, count(s), s); err != nil {
				return err
			}
		}
	}
	for range 3 {
		for _, s := range sizes {
			if _, err := stream(e, 1, count(s)/64+1, s); err != nil {
				return err
			}
		}
	}
	return e.Close()
}

func TestTwoProcesses(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "PROTO_PEER="+strconv.Itoa(os.Getpid()), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e, err := engine(0, keyOf(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for _, s := range sizes {
			d, err := pingpong(e, 0, count(s), s)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("latency %8d  %10.3f us", s, float64(d.Nanoseconds())/float64(count(s))/2000)
		}
	}
	for range 3 {
		for _, s := range sizes {
			n := count(s)/64 + 1
			d, err := stream(e, 0, n, s)
			if err != nil {
				t.Fatal(err)
			}
			per := float64(d.Nanoseconds()) / float64(n*64)
			t.Logf("stream %8d  %10.1f ns/msg %10.1f MB/s", s, per, float64(s)*1000/per)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}
