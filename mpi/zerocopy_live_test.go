package mpi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
	"github.com/ibrun/ibrun/soft-roce/live"
)

// copies counts payload bytes that ibrun's own code copies: into messages of a transport, and into memory other than
// the user's that the device reads or writes.
type copies struct {
	mu                        sync.Mutex
	src, dst                  []byte // the user's
	sent, read, written, away int
}

type (
	countedTransport struct {
		fabric.Transport
		c *copies
	}
	countedDomain struct {
		fabric.Domain
		c *copies
	}
	countedEndpoint struct {
		fabric.Endpoint
		c *copies
	}
)

func (t countedTransport) Open(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	d, err := t.Transport.Open(ctx, cfg)
	return countedDomain{d, t.c}, err
}

func (d countedDomain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	ep, err := d.Domain.Connect(peer, addr)
	return countedEndpoint{ep, d.c}, err
}

func (e countedEndpoint) Send(header, payload []byte) error {
	err := e.Endpoint.Send(header, payload)
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	at := func(b []byte) uintptr { return reflect.ValueOf(b).Pointer() }
	if err == nil && at(payload)-at(e.c.src) < uintptr(len(e.c.src)) { // other messages of the ranks are not in the user's memory
		e.c.sent += len(payload)
	}
	return err
}

func (e countedEndpoint) Read(dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error) {
	e.c.mu.Lock()
	e.c.read += len(dst)
	if &dst[0] != &e.c.dst[0] || fmt.Sprintf("%#x", src.Addr) != fmt.Sprintf("%p", &e.c.src[0]) {
		e.c.away += len(dst)
	}
	e.c.mu.Unlock()
	return e.Endpoint.Read(dst, local, src, token)
}

func (e countedEndpoint) Write(src []byte, local fabric.Region, dst fabric.RemoteKey, token uint64) (bool, error) {
	e.c.mu.Lock()
	e.c.written += len(src)
	if &src[0] != &e.c.src[0] || fmt.Sprintf("%#x", dst.Addr) != fmt.Sprintf("%p", &e.c.dst[0]) {
		e.c.away += len(src)
	}
	e.c.mu.Unlock()
	return e.Endpoint.Write(src, local, dst, token)
}

func newCopies(size int) *copies {
	c := &copies{src: make([]byte, size), dst: make([]byte, size)}
	for i := range c.src {
		c.src[i] = byte(i*7 + i>>9)
	}
	return c
}

func (c *copies) options() mpitest.Options {
	return mpitest.Options{Wrap: func(tr fabric.Transport) fabric.Transport { return countedTransport{tr, c} }}
}

// TestLiveZeroCopy: ibrun's own code copies nothing of a message of 1 MiB over RDMA.
func TestLiveZeroCopy(t *testing.T) {
	live.Device(t)
	t.Setenv("IBRUN_TRANSPORT", "rdma")
	c := newCopies(1 << 20)
	mpitest.RunWith(t, 2, c.options(), func(p *mpi.Process) error {
		if p.World().Rank() == 0 {
			return mpi.Send(p.World(), c.src, 1, 3)
		}
		_, err := mpi.Recv(p.World(), c.dst, 0, 3)
		return err
	})
	if string(c.dst) != string(c.src) {
		t.Error("other bytes came")
	}
	t.Logf("%d bytes read by the device, %d of them from or to memory that is not the user's; %d bytes of payload sent by copies",
		c.read, c.away, c.sent)
	if c.read != len(c.src) || c.away != 0 || c.sent != 0 {
		t.Errorf("%d bytes of %d were copied", c.sent+c.away+len(c.src)-c.read, len(c.src))
	}
}

// TestLiveExact: where messages fill their buffers, 1 MiB over RDMA is written straight into the buffer that waits for it. What
// is too long is an error, and touches nothing beyond.
func TestLiveExact(t *testing.T) {
	live.Device(t)
	t.Setenv("IBRUN_TRANSPORT", "rdma")
	for name, share := range map[string]int{"as long as the buffer": 1, "longer": 2} {
		t.Run(name, func(t *testing.T) {
			c := newCopies(1 << 20)
			in := c.dst[:len(c.dst)/share]
			mpitest.RunWith(t, 2, c.options(), func(p *mpi.Process) error {
				w, err := p.World().DupWithInfo(infoOf(exactLength, "true"))
				if err != nil {
					return err
				}
				var posted [1]byte
				if w.Rank() == 0 { // receivers send RTR only to ranks that have sent something
					if err := mpi.Send(w, posted[:], 1, 2); err != nil {
						return err
					}
					if _, err := mpi.Recv(w, posted[:], 1, 1); err != nil {
						return err
					}
					return mpi.Send(w, c.src, 1, 3)
				}
				if _, err := mpi.Recv(w, posted[:], 0, 2); err != nil {
					return err
				}
				r, err := mpi.Irecv(w, in, 0, 3)
				if err != nil {
					return err
				}
				if err := mpi.Send(w, posted[:], 0, 1); err != nil {
					return err
				}
				if _, err = r.Wait(); share > 1 {
					return ofClass(err, mpi.ErrTruncate)
				}
				return err
			})
			if share > 1 {
				if n := bytes.Count(c.dst[len(in):], []byte{0}); n != len(c.dst)-len(in) {
					t.Error("bytes beyond the buffer were touched")
				}
				return
			}
			if string(c.dst) != string(c.src) {
				t.Error("other bytes came")
			}
			if c.written != len(c.src) || c.read != 0 || c.away != 0 {
				t.Errorf("%d bytes were written and %d read, %d of them elsewhere", c.written, c.read, c.away)
			}
		})
	}
}

// TestLiveRailHint: a communicator is given a rail, by number or by device, and large messages come over it. Where there is no
// such rail the hint changes nothing.
func TestLiveRailHint(t *testing.T) {
	device := live.Device(t)
	t.Setenv("IBRUN_TRANSPORT", "rdma")
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		for _, c := range []struct{ key, value, rail string }{
			{railHint, "0", "0"}, {deviceHint, device, "0"}, {railHint, "9", "auto"}, {deviceHint, "elsewhere", "auto"},
		} {
			w, err := p.World().DupWithInfo(infoOf(c.key, c.value))
			if err != nil {
				return err
			}
			if err := errors.Join(hintIs(w, railHint, c.rail), aroundTheRing(w, 300000), w.Free()); err != nil {
				return fmt.Errorf("%s=%s: %w", c.key, c.value, err)
			}
		}
		return nil
	})
}
