//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
)

// TestLiveWait waits for completions with many goroutines on one channel.
func TestLiveWait(t *testing.T) {
	r := newRig(t)
	ch, err := r.dev.CreateChannel()
	must(t, err)
	ctx := waittest.Context(t)
	var group sync.WaitGroup
	for i := range 8 {
		cq, err := r.dev.CreateCQ(16, ch)
		must(t, err)
		a, b := r.pair(verbs.QPConfig{Type: verbs.RC, SendCQ: r.cq, RecvCQ: cq, MaxInline: 8})
		const rounds = 50
		ready := make(chan struct{}, rounds)
		group.Go(func() {
			wc := make([]verbs.WC, 4)
			for n := range rounds {
				if err := b.Recv(uint64(n), r.mr.SGE(1000*i, 8)); err != nil {
					t.Error(err)
				}
				ready <- struct{}{}
				if k, err := cq.Wait(ctx, wc); err != nil || k != 1 || wc[0].ID != uint64(n) || wc[0].Err() != nil {
					t.Errorf("queue %d, round %d: %d, %v, %+v", i, n, k, err, wc[0])
					return
				}
			}
		})
		group.Go(func() {
			for range rounds {
				<-ready
				if err := a.SendInline(1, 0, []byte("12345678")); err != nil {
					t.Error(err)
				}
				if err := a.Ring(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// TestLiveChannel reads events of a channel, for solicited completions only.
func TestLiveChannel(t *testing.T) {
	r := newRig(t)
	ch, err := r.dev.CreateChannel()
	must(t, err)
	cq, err := r.dev.CreateCQ(16, ch)
	must(t, err)
	a, b := r.pair(verbs.QPConfig{Type: verbs.RC, SendCQ: r.cq, RecvCQ: cq})
	must(t, b.Recv(1, r.mr.SGE(0, 8)))
	must(t, b.Recv(2, r.mr.SGE(0, 8)))
	must(t, cq.Notify(true))
	must(t, a.Send(3, verbs.Signaled, r.mr.SGE(0, 8)))
	must(t, a.Ring())
	r.done(1)
	r.poll(cq, 1)
	if got, err := ch.Next(); got != nil || err != nil {
		t.Errorf("an event for a message that was not solicited: %v, %v", got, err)
	}
	must(t, a.Send(4, verbs.Signaled|verbs.Solicited, r.mr.SGE(0, 8)))
	must(t, a.Ring())
	if got, err := ch.Wait(waittest.Context(t)); got != cq || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	r.poll(cq, 1)
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := ch.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait for nothing: %v", err)
	}
	if err := ch.Close(); !errors.Is(err, verbs.ErrBusy) || !strings.Contains(err.Error(), "completion queue") {
		t.Errorf("close in use: %v", err)
	}
}

// TestLiveCloseWakes closes objects while goroutines wait for them.
func TestLiveCloseWakes(t *testing.T) {
	r := newRig(t)
	ch, err := r.dev.CreateChannel()
	must(t, err)
	first, err := r.dev.CreateCQ(16, ch)
	must(t, err)
	second, err := r.dev.CreateCQ(16, ch)
	must(t, err)
	errs := make(chan error, 3)
	for _, cq := range []*verbs.CQ{first, second} {
		go func() {
			_, err := cq.Wait(context.Background(), make([]verbs.WC, 1))
			errs <- err
		}()
	}
	go func() {
		_, err := r.dev.NextEvent(context.Background())
		errs <- err
	}()
	waittest.Elapse(t, 50*time.Millisecond, "they wait then, but the test must pass also if they come too late")
	must(t, first.Close())
	if err := <-errs; !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("queue closed: %v", err)
	}
	must(t, r.dev.Close())
	for range 2 {
		if err := <-errs; !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("device closed: %v", err)
		}
	}
	if _, err := second.Poll(make([]verbs.WC, 1)); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("poll of a closed queue: %v", err)
	}
	if _, err := r.pd.Register(r.buf, 0); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("registration with a closed device: %v", err)
	}
}

// TestLiveLinkFlap sets the link down and up under load. Requests that are sent while it is down may fail. With rxe of Linux 6.1
// a pair may also hang forever, until it is set to the state ERR. In the end every request must have completed once.
func TestLiveLinkFlap(t *testing.T) {
	r := newRig(t)
	netdev, err := netlink.LinkByName("eth0")
	must(t, err)
	a, _ := r.pair(verbs.QPConfig{Type: verbs.RC})
	running, stop, load := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() { load <- r.load(a, running, stop) }()
	select {
	case <-running:
	case err := <-load:
		t.Fatal(err)
	}
	next := func(want verbs.EventType) {
		t.Helper()
		for {
			ev, err := r.dev.NextEvent(waittest.Context(t))
			must(t, err)
			if ev.Type == want && ev.Port == 1 {
				return
			}
		}
	}
	for range 3 {
		must(t, netlink.LinkSetDown(netdev))
		next(verbs.EventPortError)
		must(t, netlink.LinkSetUp(netdev))
		next(verbs.EventPortActive)
	}
	close(stop)
	must(t, waittest.Receive(t, "all requests complete", load))
	b, _ := r.pair(verbs.QPConfig{Type: verbs.RC}) // the device still works
	must(t, b.Write(0, verbs.Signaled, r.mr.Remote(8192), r.mr.SGE(0, 4096)))
	must(t, b.Ring())
	r.done(1)
}

// load posts writes until it is stopped, and closes running when the first has completed. Then it waits for the outstanding
// requests, and checks that each request has completed once.
func (r *rig) load(q *verbs.QP, running chan<- struct{}, stop <-chan struct{}) error {
	const window = 16
	wc := make([]verbs.WC, window)
	var completed []bool // by ID
	open := 0
	for ended := false; !ended || open > 0; {
		select {
		case <-stop:
			if err := q.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
				return err
			}
			stop, ended = nil, true
		default:
		}
		if !ended && open < window {
			err := q.Write(uint64(len(completed)), verbs.Signaled, r.mr.Remote(8192), r.mr.SGE(0, 4096))
			if err := errors.Join(err, q.Ring()); err != nil {
				return err
			}
			completed = append(completed, false)
			open++
		}
		n, err := r.cq.Poll(wc)
		if err != nil {
			return err
		}
		for _, c := range wc[:n] {
			if completed[c.ID] {
				return fmt.Errorf("request %d has completed twice", c.ID)
			}
			if c.ID == 0 {
				close(running)
			}
			completed[c.ID] = true
			open--
		}
	}
	return nil
}

// TestLiveDelete deletes a device that is open. Linux 6.1 waits until the device is closed. Later kernels may remove it earlier,
// which verbstest tests with a simulated kernel.
func TestLiveDelete(t *testing.T) {
	live.Device(t)
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "vtest0"}, PeerName: "vtest1"}
	must(t, netlink.LinkAdd(veth))
	t.Cleanup(func() { must(t, netlink.LinkDel(veth)) })
	for _, name := range []string{"vtest0", "vtest1"} {
		l, err := netlink.LinkByName(name)
		must(t, err)
		must(t, netlink.LinkSetUp(l))
	}
	must(t, netlink.RdmaLinkAdd("rxetest", "rxe", "vtest0"))
	dev, err := verbs.Open("rxetest", verbs.Options{Provider: "rxe"})
	must(t, err)
	pd, err := dev.AllocPD()
	must(t, err)
	_, err = pd.Register(make([]byte, 4096), verbs.LocalWrite)
	must(t, err)
	deleted := make(chan error)
	go func() { deleted <- netlink.RdmaLinkDel("rxetest") }()
	waittest.Elapse(t, 100*time.Millisecond, "some kernels delete the device meanwhile")
	select {
	case err := <-deleted:
		t.Logf("this kernel deletes a device that is open: %v", err)
		must(t, dev.Close())
		return
	default:
	}
	must(t, dev.Close())
	must(t, waittest.Receive(t, "the deletion finishes after Close", deleted))
}

// resources counts the kernel resources of a process.
type resources struct {
	descriptors, mappings, goroutines int
	objects                           string
}

func (l resources) String() string {
	return fmt.Sprintf("%d descriptors, %d mappings of the device, %d goroutines; %s",
		l.descriptors, l.mappings, l.goroutines, l.objects)
}

func countResources(t *testing.T, device string) resources {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	maps, err := os.ReadFile("/proc/self/maps")
	must(t, err)
	res, err := netlink.RdmaResourceList()
	must(t, err)
	l := resources{descriptors: len(fds), mappings: strings.Count(string(maps), "infiniband"), goroutines: runtime.NumGoroutine()}
	for _, r := range res {
		if r.Name == device {
			l.objects = fmt.Sprint(r.RdmaResourceSummaryEntries)
		}
	}
	return l
}

// TestLiveThousandQueuePairs creates, connects, uses and closes queue pairs, and checks that no resources leak.
func TestLiveThousandQueuePairs(t *testing.T) {
	device := live.Device(t)
	warm, err := verbs.Open(device, verbs.Options{Provider: "rxe"}) // starts the poller and other goroutines that never end
	must(t, err)
	must(t, warm.Close())
	before := countResources(t, device)
	t.Run("use", func(t *testing.T) {
		r := newRig(t)
		var all []*verbs.QP
		for range 500 {
			cq, err := r.dev.CreateCQ(4, nil)
			must(t, err)
			a, b := r.pair(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, MaxSend: 2, MaxRecv: 2})
			must(t, b.Recv(1, r.mr.SGE(0, 8)))
			must(t, a.Send(2, verbs.Signaled, r.mr.SGE(8, 8)))
			must(t, a.Ring())
			for _, c := range r.poll(cq, 2) {
				must(t, c.Err())
			}
			all = append(all, a, b)
		}
		if n := countResources(t, device); n.mappings < 2500 {
			t.Errorf("while they are open: %v", n)
		}
		for _, q := range all[:len(all)/2] { // the device closes the others
			must(t, q.Close())
		}
	})
	waittest.UntilNil(t, "no resources leak", func() error {
		runtime.GC()
		if after := countResources(t, device); after != before {
			return fmt.Errorf("before: %v\nafter:  %v", before, after)
		}
		return nil
	})
}
