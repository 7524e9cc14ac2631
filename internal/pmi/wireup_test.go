//go:build unix

package pmi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// socketPair returns a connection and a descriptor that is inherited, as a launcher would make them.
func socketPair(t testing.TB) (conn *os.File, fd int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		t.Fatal(err)
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "launcher"), fds[1]
}

// startFD serves a rank over a socket pair and returns the rank's environment.
func startFD(t testing.TB, s *Server, rank int) (getenv func(string) string, served chan error) {
	conn, fd := socketPair(t)
	served = make(chan error, 1)
	go func() { served <- s.Serve(rank, conn) }()
	return env("PMI_FD="+strconv.Itoa(fd), "PMI_RANK="+strconv.Itoa(rank), "PMI_SIZE="+strconv.Itoa(s.job.Size)), served
}

// startPort serves a rank over TCP.
func startPort(t testing.TB, s *Server, rank int) (getenv func(string) string, served chan error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served = make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			err = s.Serve(rank, conn)
		}
		served <- errors.Join(err, ln.Close())
	}()
	return env("PMI_PORT="+ln.Addr().String(), "PMI_ID="+strconv.Itoa(rank)), served
}

func TestWireUp(t *testing.T) {
	for name, test := range map[string]struct {
		size, blob int
		start      func(testing.TB, *Server, int) (func(string) string, chan error)
	}{
		"one":             {1, 10, startFD},
		"socket pair, 64": {64, 100, startFD},
		"large blobs":     {4, 20000, startFD},
		"TCP":             {8, 1000, startPort},
	} {
		t.Run(name, func(t *testing.T) {
			var events eventLog
			s := newTestServer(t, Job{Size: test.size, Events: events.events()})
			var ranks sync.WaitGroup
			var served []chan error
			for rank := range test.size {
				getenv, done := test.start(t, s, rank)
				served = append(served, done)
				ranks.Go(func() {
					c, err := FromEnv(getenv)
					if err == nil && (c.Rank() != rank || c.Size() != test.size) {
						err = fmt.Errorf("this is rank %d of %d", c.Rank(), c.Size())
					}
					if err == nil {
						err = exchange(t.Context(), c, test.blob)
					}
					if err == nil {
						err = c.Finalize()
					}
					if err != nil {
						t.Errorf("rank %d: %v", rank, err)
					}
				})
			}
			ranks.Wait()
			for rank, done := range served {
				if err := <-done; err != nil {
					t.Errorf("serving rank %d: %v", rank, err)
				}
			}
			if got := events.String(); strings.Count(got, "init") != test.size || strings.Count(got, "finalize") != test.size ||
				strings.Contains(got, "lost") {
				t.Errorf("events %s", got)
			}
		})
	}
}

// exchange publishes a blob and checks the blobs of all ranks.
func exchange(ctx context.Context, c *Client, blobBytes int) error {
	if err := c.PutBlob(fmt.Sprintf("blob-%d-of", c.Rank()), testBlob(c.Rank(), blobBytes)); err != nil {
		return err
	}
	if err := c.Barrier(ctx); err != nil {
		return err
	}
	for peer := range c.Size() {
		blob, err := c.GetBlob(fmt.Sprintf("blob-%d-of", peer))
		if err != nil {
			return err
		}
		if !bytes.Equal(blob, testBlob(peer, blobBytes)) {
			return fmt.Errorf("blob of rank %d has %d bytes, or is damaged", peer, len(blob))
		}
	}
	ranks, err := c.NodeRanks()
	if err == nil && len(ranks) != c.Size() {
		err = fmt.Errorf("ranks of this node: %v", ranks)
	}
	return err
}

func testBlob(rank, n int) []byte {
	blob := make([]byte, n)
	for i := range blob {
		blob[i] = byte(i*7 + rank)
	}
	return blob
}

func TestGroupBarrierWithServer(t *testing.T) {
	s := newTestServer(t, Job{Size: 3})
	var ranks sync.WaitGroup
	for rank := range 3 {
		getenv, _ := startFD(t, s, rank)
		ranks.Go(func() {
			c, err := FromEnv(getenv)
			if err == nil && rank != 1 {
				err = c.GroupBarrier(t.Context(), []int{2, 0}, 1)
			}
			if err == nil {
				err = c.Barrier(t.Context())
			}
			if err == nil {
				err = c.Finalize()
			}
			if err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	ranks.Wait()
}

func TestDescriptorIsClosedOnExec(t *testing.T) {
	getenv, _ := startFD(t, newTestServer(t, Job{Size: 1}), 0)
	fd, _ := strconv.Atoi(getenv("PMI_FD"))
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
		t.Fatalf("flags %#x, %v; the test needs an inherited descriptor", flags, err)
	}
	c, err := FromEnv(getenv)
	if err != nil {
		t.Fatal(err)
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v; want closed on exec", flags, err)
	}
	if err := c.Finalize(); err != nil {
		t.Error(err)
	}
	if c, err := FromEnv(getenv); c != nil || err != nil {
		t.Errorf("FromEnv on the closed descriptor of a job of one: %v, %v", c, err)
	}
}

func TestRankDiesBeforeReply(t *testing.T) {
	var events eventLog
	s := newTestServer(t, Job{Size: 1, Events: events.events()})
	conn, fd := socketPair(t)
	client := os.NewFile(uintptr(fd), "rank")
	if _, err := client.WriteString("cmd=get_appnum\n"); err != nil {
		t.Fatal(err)
	}
	client.Close()
	if err := s.Serve(0, conn); err != nil {
		t.Error(err)
	}
	if want := "lost 0 false"; events.String() != want {
		t.Errorf("events %s, want %s", &events, want)
	}
}

func TestServerDies(t *testing.T) {
	conn, fd := socketPair(t)
	s := newTestServer(t, Job{Size: 2})
	go s.Serve(0, conn)
	c, err := FromEnv(env(fmt.Sprint("PMI_FD=", fd), "PMI_RANK=0", "PMI_SIZE=2"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		awaitBarrier(s)
		conn.Close()
	}()
	if err := c.Barrier(t.Context()); err == nil || !strings.Contains(err.Error(), "barrier_in: launcher closed") {
		t.Errorf("barrier: %v", err)
	}
}

func TestCloseEndsABarrier(t *testing.T) {
	s := newTestServer(t, Job{Size: 2})
	getenv, served := startFD(t, s, 0)
	c, err := FromEnv(getenv)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() {
		awaitBarrier(s)
		closed <- c.Close()
	}()
	if err := c.Barrier(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("barrier: %v", err)
	}
	if err := errors.Join(<-closed, <-served); err != nil {
		t.Error(err)
	}
}

// awaitBarrier blocks until a rank waits in a barrier.
func awaitBarrier(s *Server) {
	for waiting := 0; waiting == 0; runtime.Gosched() {
		s.mu.Lock()
		waiting = len(s.barriers)
		s.mu.Unlock()
	}
}

// BenchmarkWireUp measures all that n ranks do: initialize, put, barrier, one get, finalize.
func BenchmarkWireUp(b *testing.B) {
	for _, n := range []int{2, 64} {
		b.Run(fmt.Sprintf("ranks=%d", n), func(b *testing.B) {
			for b.Loop() {
				s := newTestServer(b, Job{Size: n})
				var ranks sync.WaitGroup
				for rank := range n {
					getenv, _ := startFD(b, s, rank)
					ranks.Go(func() {
						if err := wireUp(b.Context(), getenv); err != nil {
							b.Error(err)
						}
					})
				}
				ranks.Wait()
			}
		})
	}
}

func wireUp(ctx context.Context, getenv func(string) string) error {
	c, err := FromEnv(getenv)
	if err != nil {
		return err
	}
	if err := c.PutBlob(fmt.Sprint("addr-", c.Rank()), make([]byte, 64)); err != nil {
		return err
	}
	if err := c.Barrier(ctx); err != nil {
		return err
	}
	if _, err := c.GetBlob(fmt.Sprint("addr-", (c.Rank()+1)%c.Size())); err != nil {
		return err
	}
	return c.Finalize()
}
