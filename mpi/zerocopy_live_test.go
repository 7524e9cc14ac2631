package mpi_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
	"github.com/ibrun/ibrun/soft-roce/live"
)

// copies counts payload bytes that our own code copies: into what a transport sends, and wherever the device reads from or
// writes to memory that is not the user's.
type copies struct {
	mu               sync.Mutex
	src, dst         []byte // the user's
	sent, read, away int
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
	if err == nil {
		e.c.mu.Lock()
		e.c.sent += len(payload)
		e.c.mu.Unlock()
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
	e.c.away += len(src) // not how large messages travel
	e.c.mu.Unlock()
	return e.Endpoint.Write(src, local, dst, token)
}

// TestLiveZeroCopy: of a message of 1 MiB over RDMA our own code copies nothing.
func TestLiveZeroCopy(t *testing.T) {
	live.Device(t)
	t.Setenv("IBRUN_TRANSPORT", "rdma")
	const size = 1 << 20
	c := &copies{src: make([]byte, size), dst: make([]byte, size)}
	for i := range c.src {
		c.src[i] = byte(i*7 + i>>9)
	}
	o := mpitest.Options{Wrap: func(tr fabric.Transport) fabric.Transport { return countedTransport{tr, c} }}
	mpitest.RunWith(t, 2, o, func(p *mpi.Process) error {
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
	if c.read != size || c.away != 0 || c.sent != 0 {
		t.Errorf("%d bytes of %d were copied", c.sent+c.away+size-c.read, size)
	}
}
