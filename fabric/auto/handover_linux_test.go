package auto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// traffic is numbered messages of several lengths in both directions of each pair of a cluster.
type traffic struct {
	*cluster
	rand     *rand.Rand
	messages int // in each direction
	sent     map[[2]int]int
	got      map[[2]int]int
	down     map[[2]int]error
	rerouted map[[2]int]int
	longest  int
	done     []int // reads that have ended, by process
	began    []int // reads that have begun
	refused  int   // reads that ended with fabric.ErrNotSupported
}

func newTraffic(c *cluster, r *rand.Rand, messages int) *traffic {
	longest := 1 << 30
	for _, d := range c.ds {
		for _, p := range d.(fabric.Router).Routes() {
			longest = min(longest, p.Caps().MaxSend)
		}
	}
	return &traffic{c, r, messages, map[[2]int]int{}, map[[2]int]int{}, map[[2]int]error{}, map[[2]int]int{}, longest,
		make([]int, len(c.ds)), make([]int, len(c.ds)), 0}
}

// message returns a message of a direction.
func (t *traffic) message(way [2]int, n int) []byte {
	b := make([]byte, []int{8, 24, 300, 4096, t.longest}[(n*7+way[0])%5])
	for i := range b {
		b[i] = byte(n + way[0]*3 + i)
	}
	binary.LittleEndian.PutUint32(b, uint32(n))
	return b
}

// spaced is a source whose packed bytes are every second byte of memory.
type spaced []byte

// apart returns a copy of b with a byte behind each.
func apart(b []byte) spaced {
	s := make(spaced, 2*len(b))
	for i, x := range b {
		s[2*i] = x
	}
	return s
}

func (s spaced) Pack(dst []byte, from int64) (n int) {
	for ; n < len(dst) && 2*(int(from)+n) < len(s); n++ {
		dst[n] = s[2*(int(from)+n)]
	}
	return n
}

func (s spaced) Blocks(out []fabric.Block, from, to int64) (n int, next int64) {
	for ; n < len(out) && from < min(to, int64(len(s)/2)); n++ {
		out[n] = fabric.Block{Off: 2 * from, Len: 1}
		from++
	}
	return n, from
}

func (s spaced) Slice(b fabric.Block) []byte { return s[b.Off:][:b.Len] }

func (s spaced) BlockLen() int64 { return 1 }

func (t *traffic) send(way [2]int, most int) {
	for ; most > 0 && t.sent[way] < t.messages && t.down[way] == nil; most-- {
		b := t.message(way, t.sent[way])
		ep := t.connect(way[0], way[1])
		err := error(nil)
		if t.sent[way]%3 == 0 {
			src := apart(b[4:])
			err = ep.(fabric.Gatherer).SendFrom(b[:4], src, 0, len(b)-4)
			clear(src)
		} else {
			err = ep.Send(b[:4], b[4:])
		}
		if err == fabric.ErrAgain {
			return
		}
		if err != nil {
			if errors.Is(err, fabric.ErrPeerDown) {
				return // the event follows
			}
			t.t.Fatalf("process %d sends message %d to %d: %v", way[0], t.sent[way], way[1], err)
		}
		t.sent[way]++
	}
}

func (t *traffic) poll(i int) {
	evs := make([]fabric.Event, 1+t.rand.IntN(8))
	n, err := t.ds[i].Poll(evs)
	if err != nil {
		t.t.Fatal(err)
	}
	for _, ev := range evs[:n] {
		way := [2]int{int(ev.Peer), i}
		switch ev.Kind {
		case fabric.Message:
			if want := t.message(way, t.got[way]); !bytes.Equal(ev.Data, want) {
				t.t.Fatalf("process %d got %d bytes (%x...) from %d as message %d", i, len(ev.Data), ev.Data[:min(8, len(ev.Data))],
					ev.Peer, t.got[way])
			}
			t.got[way]++
		case fabric.Rerouted:
			t.rerouted[way]++
		case fabric.PeerDown:
			t.down[[2]int{i, int(ev.Peer)}] = ev.Err
		case fabric.Done:
			t.done[i]++
			if errors.Is(ev.Err, fabric.ErrNotSupported) {
				t.refused++
			} else if ev.Err != nil {
				t.t.Fatalf("process %d reads: %v", i, ev.Err)
			}
		}
	}
}

func (t *traffic) finished() bool {
	for a := range t.ds {
		for b := range t.ds {
			if a != b && t.got[[2]int{a, b}] < t.messages {
				return false
			}
		}
		if t.done[a] < t.began[a] {
			return false
		}
	}
	return true
}

// run sends and polls until all has arrived, and calls disturb with the number of the step.
func (t *traffic) run(disturb func(step int)) {
	t.t.Helper()
	defer waittest.LogIfFailed(t.t, func() string {
		return fmt.Sprintf("sent %v, got %v, rerouted %v, down %v, reads %v of %v", t.sent, t.got, t.rerouted, t.down, t.done, t.began)
	})
	step := 0
	waittest.Poll(t.t, "all has arrived", func() bool {
		if t.finished() || len(t.down) > 0 {
			return true
		}
		disturb(step)
		for a := range t.ds {
			for b := range t.ds {
				if a != b {
					t.send([2]int{a, b}, t.rand.IntN(6))
				}
			}
			for range t.rand.IntN(70) {
				t.poll(a)
			}
		}
		step++
		return false
	})
}

// TestHandover: devices are lost at any moment while both sides send. No message is lost, doubled or reordered, and both use what
// is left.
func TestHandover(t *testing.T) {
	for name, c := range map[string]struct {
		nodes  string
		remove string
		want   string
	}{
		"to TCP":                  {"ib,ib", "ib-1", "0-1 tcp"},
		"to the next subnet":      {"ib eth,ib eth", "ib-0", "0-1 eth"},
		"both devices":            {"ib,ib", "ib-1 ib-0", "0-1 tcp"},
		"during another handover": {"ib eth,ib eth", "ib-1 eth-0", "0-1 tcp"},
		"twice by one":            {"ib eth,ib eth", "ib-1 eth-1", "0-1 tcp"},
		"one of three":            {"ib,ib,ib", "ib-1", "0-1 tcp, 0-2 ib, 1-2 tcp"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range soaktest.Choose(1000, 4) {
				seed := uint64(i)
				r := rand.New(rand.NewPCG(seed, 2))
				at := map[int]string{}
				step := r.IntN(60)
				if i%8 == 7 {
					step = 0
				}
				for _, device := range strings.Fields(c.remove) {
					for at[step] != "" {
						step++
					}
					at[step] = device
					step += 1 + r.IntN(12)
				}
				job := newCluster(t, 0, strings.Split(c.nodes, ",")...)
				tr := newTraffic(job, r, 200)
				removed := 0
				disturb := func(step int) {
					if device := at[step]; device != "" {
						job.net.RemoveDevice(device)
						removed++
					}
				}
				tr.run(disturb)
				for step := 0; removed < len(at); step++ {
					disturb(step + 1)
					if step > 200 {
						break
					}
				}
				if len(tr.down) > 0 {
					t.Fatalf("round %d: %v", i, tr.down)
				}
				tr.messages += 20 // over what is left
				tr.run(func(int) {})
				if got := job.routes(); removed == len(at) && got != c.want && len(tr.down) == 0 {
					t.Errorf("round %d: the routes are %s, want %s; removed at %v", i, got, c.want, at)
				}
				if len(tr.down) > 0 {
					t.Fatalf("round %d: %v", i, tr.down)
				}
				job.close()
			}
		})
	}
}

// TestHandoverByPeer: process 0 connects to process 1, which does not connect itself. The device of process 1 is lost while the
// connection is made, or after that. Then both use TCP. Process 1 asks for the address of process 0.
func TestHandoverByPeer(t *testing.T) {
	for name, connected := range map[string]bool{"connecting": false, "connected": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := newCluster(t, 0, "ib", "ib")
			if connected {
				job.sendOne()
			} else {
				if err := job.connect(0, 1).Send([]byte("early"), nil); err != fabric.ErrAgain {
					t.Fatal(err)
				}
				job.poll(0)
				job.poll(1)
			}
			job.net.RemoveDevice("ib-1")
			job.sendOne()
			waittest.Poll(t, "both use TCP", func() bool {
				job.pollAll()
				return job.route(0, 1) == "tcp" && job.route(1, 0) == "tcp"
			})
			if len(job.notes) != 1 {
				t.Errorf("reported: %q", job.notes)
			}
			if asked := job.asked.Load(); connected && asked != 1 {
				t.Errorf("processes asked for %d addresses, want 1", asked)
			}
		})
	}
}
