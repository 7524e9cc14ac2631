package auto

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// refusal is a call that the InfiniBand devices of some processes refuse.
type refusal struct {
	call   verbstest.SimulatedCall
	errno  syscall.Errno
	skip   int // calls before that succeed
	always bool
	at     string // the processes
	second bool   // the nodes have another device, in another subnet
	phase  string // from when on calls are counted
	rare   string // the process that polls rarely, empty if none does
}

func (r refusal) String() string {
	return fmt.Sprintf("%v with %q after %d, always %v, at %v, a second device %v, while %s, rarely polls %q", r.call, r.errno,
		r.skip, r.always, r.at, r.second, r.phase, r.rare)
}

// refusalPhases are the parts of a job in which calls are refused.
var refusalPhases = []string{"opening", "connecting", "connecting again", "closing"}

// allRefusals returns the first, a later and every call with every error; the phase and the processes change from one to the
// next. It also returns every call in all ways, each way with a quarter of [ibvmock.Errnos]. In some of these a process polls
// rarely.
func allRefusals() (all []refusal) {
	const lastErrno = 133 // EHWPOISON
	for _, call := range verbstest.SimulatedCalls() {
		for errno := syscall.Errno(1); errno <= lastErrno; errno++ {
			if errno == 41 || errno == 58 { // not in use
				continue
			}
			for position := range 3 {
				turn := int(errno) + position
				all = append(all, refusal{call: call, errno: errno, skip: [...]int{0, 2, 0}[position], always: position == 2,
					at: [...]string{"1", "01", "0"}[turn/4%3], phase: refusalPhases[turn%4]})
			}
		}
		for i, errno := range ibvmock.Errnos() {
			for _, phase := range refusalPhases {
				for way := range 3 * 3 * 2 {
					if (i+way)%4 != 0 { // each way with a quarter of the errors
						continue
					}
					all = append(all, refusal{call: call, errno: errno, skip: [...]int{0, 2, 0}[way%3], always: way%3 == 2,
						at: [...]string{"0", "1", "01"}[way/3%3], second: way/9 == 1, phase: phase,
						rare: [...]string{"", "0", "", "1", ""}[(i+way)/4%5]})
				}
			}
		}
	}
	return all
}

// lastingRefusals returns the changes of a queue pair that a device carries out last, refused for good in all ways. A device that
// refuses these has granted all else: the other process is connected already, or waits for an answer.
func lastingRefusals() (all []refusal) {
	for _, call := range []verbstest.SimulatedCall{verbstest.CallToInit, verbstest.CallToRTR, verbstest.CallToRTS,
		verbstest.CallToErr} {
		for _, phase := range refusalPhases {
			for _, at := range []string{"0", "1", "01"} {
				for _, rare := range []string{"", "0", "1"} {
					all = append(all, refusal{call: call, errno: syscall.ETIMEDOUT, always: true, at: at, phase: phase, rare: rare})
				}
			}
		}
	}
	return all
}

// TestAdapterRefusals: a device refuses a call, once or always, at one process or both. The job goes on, over another device or
// over TCP, and each process that lost something says so in one line that names the call and the error. With IBRUN_SOAK=1 it goes
// through all calls and errors, else through some.
func TestAdapterRefusals(t *testing.T) {
	t.Parallel()
	all := allRefusals()
	if !soaktest.On() {
		r := rand.New(rand.NewPCG(soaktest.Seed(t), 0))
		lasting := lastingRefusals()
		for _, list := range [][]refusal{all, lasting} {
			r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		}
		all = slices.Concat(all[:8], lasting[:8], worstRefusals)
	} else {
		all = append(all, lastingRefusals()...)
	}
	const atOnce = 32
	running, group := make(chan struct{}, atOnce), sync.WaitGroup{}
	for _, r := range all {
		running <- struct{}{}
		group.Go(func() {
			defer func() { <-running }()
			t.Run(r.String(), r.run)
		})
	}
	group.Wait()
}

// worstRefusals have once ended jobs.
var worstRefusals = []refusal{
	{call: verbstest.CallModifyQP, errno: syscall.ETIMEDOUT, always: true, at: "01", phase: "connecting"},
	{call: verbstest.CallModifyQP, errno: syscall.EIO, always: true, at: "1", phase: "connecting"},
	{call: verbstest.CallModifyQP, errno: syscall.ENODATA, always: true, at: "1", phase: "opening"},
	{call: verbstest.CallModifyQP, errno: syscall.EREMOTEIO, always: true, second: true, at: "1", phase: "connecting again"},
	{call: verbstest.CallCreateQP, errno: syscall.ENETUNREACH, always: true, at: "1", phase: "connecting again"},
	{call: verbstest.CallNotify, errno: syscall.EINVAL, always: true, at: "01", phase: "opening"},
	{call: verbstest.CallNotify, errno: syscall.EINVAL, always: true, at: "1", phase: "connecting"},
	{call: verbstest.CallSend, errno: syscall.EINVAL, always: true, at: "1", phase: "connecting"},
	{call: verbstest.CallSend, errno: syscall.ENOMEM, skip: 2, at: "01", phase: "connecting again"},
	{call: verbstest.CallSRQRecv, errno: syscall.ENODEV, always: true, at: "1", phase: "connecting"},
	{call: verbstest.CallModifyQP, errno: syscall.EINVAL, always: true, at: "1", phase: "connecting again"},
	{call: verbstest.CallQueryPort, errno: syscall.ENODEV, always: true, at: "1", phase: "opening"},
}

// run runs a job with the refusal.
func (r refusal) run(t *testing.T) {
	nodes := []string{"ib", "ib"}
	if r.second {
		nodes = []string{"ib eth", "ib eth"}
	}
	net := verbstest.NewSimulatedNetwork()
	if r.phase == refusalPhases[0] {
		r.begin(net)
	}
	job := newClusterOn(t, net, 0, nodes...)
	job.rare = r.rare
	if r.phase == refusalPhases[1] {
		r.begin(net)
	}
	job.exchange()
	job.exchangeLarge()
	if r.phase == refusalPhases[2] {
		r.begin(net)
		net.BreakConnections()
	}
	job.exchange()
	job.exchangeLarge()
	if r.phase == refusalPhases[3] {
		r.begin(net)
		r.close(t, job)
	}
	net.RefuseOn(nil)
	r.check(t, job)
}

// close closes all processes. If a device does not release something, the error names the call and the reason. If that is EIO,
// the device is taken for lost, and the kernel has released what it had.
func (r refusal) close(t *testing.T, job *cluster) {
	var all sync.WaitGroup
	for _, d := range job.ds {
		all.Go(func() {
			err := d.Close()
			if err != nil && (!strings.Contains(err.Error(), "ibv_"+r.call.String()) || !errors.Is(err, r.errno)) {
				t.Errorf("%v: the error of Close does not name the call: %v", r, err)
			}
			if released := r.call < verbstest.CallDestroyQP || r.errno == syscall.EIO; err == nil && r.always && !released &&
				strings.Contains(r.at, fmt.Sprint(slices.Index(job.ds, d))) {
				t.Errorf("%v: Close says nothing", r)
			}
		})
	}
	all.Wait()
}

// begin begins to refuse calls.
func (r refusal) begin(net *verbstest.SimulatedNetwork) {
	var mu sync.Mutex
	made := map[string]int{}
	net.RefuseOn(func(device string, c verbstest.SimulatedCall) error {
		if kind, process, _ := strings.Cut(device, "-"); c != r.call || kind != "ib" || !strings.Contains(r.at, process) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if made[device]++; made[device] <= r.skip || !r.always && made[device] > r.skip+1 {
			return nil
		}
		return r.errno
	})
}

// check checks which transport the job has used, and what it has reported.
func (r refusal) check(t *testing.T, job *cluster) {
	route := job.route(0, 1)
	if other := job.route(1, 0); other != route {
		t.Errorf("%v: process 0 uses %s, process 1 uses %s", r, route, other)
	}
	job.mu.Lock()
	defer job.mu.Unlock()
	lines := map[byte]int{}
	for _, note := range job.notes {
		lines[note[0]]++
		for _, want := range []string{"ibv_" + r.call.String(), r.errno.Error()} {
			if !strings.Contains(note, want) {
				t.Errorf("%v: the line does not name %s: %q", r, want, note)
			}
		}
		if strings.Contains(note, fabric.ErrPeerDown.Error()) || strings.Contains(note, "\n") {
			t.Errorf("%v: reported %q", r, note)
		}
	}
	if lines['0'] > 1 || lines['1'] > 1 || len(job.notes) > len(r.at) || len(job.notes) == 0 && route != "ib" {
		t.Errorf("%v: %s is used; reported %q", r, route, job.notes)
	}
}

// exchangeLarge makes each process read memory of the other over the transport that they use.
func (c *cluster) exchangeLarge() {
	c.t.Helper()
	for reader := range c.ds {
		c.readLarge(reader, 1-reader)
	}
}

// readLarge makes a process read memory of another. If they change to another transport meanwhile, it begins again. If the device
// does not register memory, it does nothing: then messages are sent in fragments.
func (c *cluster) readLarge(reader, owner int) {
	c.t.Helper()
	src, dst := bytes.Repeat([]byte{byte(reader + 1)}, 200_000), make([]byte, 200_000)
	reading, done := false, false
	waittest.Poll(c.t, "a process has read the memory of another", func() bool {
		if !reading && c.route(reader, owner) == c.route(owner, reader) {
			far, err := c.ds[owner].(fabric.Router).Route(reader).Register(src)
			near, err2 := c.ds[reader].(fabric.Router).Route(owner).Register(dst)
			if err != nil || err2 != nil {
				done = true
				copy(dst, src)
				return true
			}
			done, err = c.connect(reader, owner).Read(dst, near, far.Remote, 7)
			reading = err == nil
			if err != nil && !errors.Is(err, fabric.ErrAgain) && !errors.Is(err, fabric.ErrNotSupported) {
				c.t.Fatalf("read: %v", err)
			}
		}
		c.pollAll()
		for _, err := range c.ended {
			reading, done = err == nil, done || err == nil
		}
		c.ended = nil
		return done
	})
	if !bytes.Equal(src, dst) {
		c.t.Error("the wrong bytes were read")
	}
}
