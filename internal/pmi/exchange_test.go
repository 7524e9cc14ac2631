package pmi

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// cluster is a job with a server on each node and the exchange between them. Messages are encoded and delivered in order, as
// between machines.
type cluster struct {
	servers  []*Server
	exchange *Exchange
	nodes    []int // by rank

	mu              sync.Mutex
	toExchange, all int // messages to the exchange so far, and messages in both directions
}

func (c *cluster) messages() (up, all int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.toExchange, c.all
}

func newCluster(t testing.TB, mapping string, size int) *cluster {
	t.Helper()
	x, err := NewExchange(mapping, size)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{exchange: x, nodes: x.nodes}
	for node := range x.count {
		toExchange := func(p *ExchangeMessage) {
			text, err := json.Marshal(p)
			if err != nil {
				t.Error(err)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.toExchange++
			c.all++
			c.deliver(t, x, node, text)
		}
		c.servers = append(c.servers, newTestServer(t, Job{Size: size, Mapping: mapping, Node: node, ToExchange: toExchange}))
	}
	return c
}

func (c *cluster) deliver(t testing.TB, x *Exchange, node int, text []byte) {
	p := new(ExchangeMessage)
	if err := json.Unmarshal(text, p); err != nil {
		t.Error(err)
	}
	list, err := x.Receive(node, p)
	if err != nil {
		t.Error(err)
	}
	for _, d := range list {
		for _, to := range d.Nodes {
			c.all++
			if err := c.servers[to].Deliver(&d.Message); err != nil {
				t.Error(err)
			}
		}
	}
}

func (c *cluster) rank(t testing.TB, n int) *rank { return serve(t, c.servers[c.nodes[n]], n) }

// barrierAll sends a line for each rank and expects the answer at all of them.
func barrierAll(ranks []*rank, line, answer string) {
	for _, r := range ranks {
		r.send(line)
	}
	for _, r := range ranks {
		r.expect(answer)
	}
}

// Ranks on all nodes see what was put before a barrier. It takes one message in each direction for each node with ranks.
func TestBarrierOfNodes(t *testing.T) {
	for _, mapping := range []string{"(vector,(0,2,3),(2,1,2))", "(vector,(1,2,3),(3,1,2))"} { // node 0 may have no ranks
		testBarrierOfNodes(t, mapping)
	}
}

func testBarrierOfNodes(t *testing.T, mapping string) {
	const size, nodes = 8, 3
	c := newCluster(t, mapping, size)
	var ranks []*rank
	for n := range size {
		ranks = append(ranks, c.rank(t, n))
	}
	for round := range 3 {
		for n, r := range ranks {
			r.send(fmt.Sprintf("cmd=put kvsname=job1 key=k%d-%d value=v%d\n", round, n, n))
			r.expect("cmd=put_result rc=0\n")
		}
		if round == 0 { // a put on another node is not visible before a barrier
			ranks[0].send("cmd=get kvsname=job1 key=k0-7\n")
			ranks[0].expect("cmd=get_result rc=-1 msg=key_not_found\n")
		}
		beforeUp, before := c.messages()
		barrierAll(ranks, "cmd=barrier_in\n", "cmd=barrier_out rc=0 tag=0\n")
		if up, all := c.messages(); up-beforeUp != nodes || all-before != 2*nodes {
			t.Errorf("a barrier took %d messages to the exchange and %d in total", up-beforeUp, all-before)
		}
		for _, r := range ranks {
			for n := range size {
				r.send(fmt.Sprintf("cmd=get kvsname=job1 key=k%d-%d\n", round, n))
				r.expect(fmt.Sprintf("cmd=get_result rc=0 value=v%d\n", n))
			}
		}
		c.mu.Lock()
		if len(c.exchange.log) > 0 || c.exchange.bytes > 0 {
			t.Errorf("%s: the exchange keeps %d puts with %d bytes that all nodes have", mapping, len(c.exchange.log), c.exchange.bytes)
		}
		c.mu.Unlock()
	}
}

// A barrier of ranks on one node sends no messages. A barrier of ranks on some nodes sends the new puts to these nodes; the other
// nodes receive them with the next barrier.
func TestGroupsOnNodes(t *testing.T) {
	c := newCluster(t, "(vector,(0,3,2))", 6)
	var ranks []*rank
	for n := range 6 {
		ranks = append(ranks, c.rank(t, n))
	}
	barrierAll(ranks[2:4], "cmd=barrier_in group=NODE:1\n", "cmd=barrier_out rc=0 tag=1\n")
	barrierAll(ranks[2:4], "cmd=barrier_in group=3,2\n", "cmd=barrier_out rc=0 tag=0\n")
	if _, all := c.messages(); all != 0 {
		t.Errorf("barriers on one node took %d messages", all)
	}
	ranks[4].send("cmd=put key=remote value=v\n")
	ranks[4].expect("cmd=put_result rc=0\n")
	barrierAll([]*rank{ranks[0], ranks[4]}, "cmd=barrier_in group=4,0:7\n", "cmd=barrier_out rc=0 tag=7\n")
	get := func(n int, answer string) {
		ranks[n].send("cmd=get key=remote\n")
		ranks[n].expect("cmd=get_result " + answer + "\n")
	}
	get(1, "rc=0 value=v")
	get(2, "rc=-1 msg=key_not_found")
	barrierAll(ranks, "cmd=barrier_in group=WORLD:2\n", "cmd=barrier_out rc=0 tag=2\n")
	get(2, "rc=0 value=v")
}

// A published name is visible on all nodes immediately.
func TestNamesOnNodes(t *testing.T) {
	c := newCluster(t, "(vector,(0,2,1))", 2)
	a, b := c.rank(t, 0), c.rank(t, 1)
	a.send("cmd=publish_name service=s port=p1\n")
	a.expect("cmd=publish_result rc=0 info=ok\n")
	b.send("cmd=publish_name service=s port=p2\n")
	b.expect("cmd=publish_result rc=-1 msg=name_is_taken_or_there_is_no_room_for_it info=fail\n")
	b.send("cmd=lookup_name service=s\n")
	b.expect("cmd=lookup_result rc=0 info=ok port=p1\n")
	b.send("cmd=unpublish_name service=s\n")
	b.expect("cmd=unpublish_result rc=0 info=ok\n")
	a.send("cmd=lookup_name service=s\n")
	a.expect("cmd=lookup_result rc=-1 msg=name_not_found info=fail\n")
}

// Puts that do not fit one message are sent in several messages.
func TestManyPuts(t *testing.T) {
	const puts = 1000
	c := newCluster(t, "(vector,(0,2,1))", 2)
	a, b := c.rank(t, 0), c.rank(t, 1)
	value := strings.Repeat("v", 900)
	for i := range puts {
		a.send(fmt.Sprintf("cmd=put key=k%d value=%s\n", i, value))
		a.expect("cmd=put_result rc=0\n")
	}
	barrierAll([]*rank{a, b}, "cmd=barrier_in\n", "cmd=barrier_out rc=0 tag=0\n")
	if up, _ := c.messages(); up < 3 {
		t.Errorf("%d messages for %d bytes", up, puts*len(value))
	}
	for i := range puts {
		b.send(fmt.Sprintf("cmd=get key=k%d\n", i))
		b.expect("cmd=get_result rc=0 value=" + value + "\n")
	}
}

// If two barriers complete at the same time, the puts made before each are visible after it.
func TestConcurrentBarriers(t *testing.T) {
	for round := range 50 {
		c := newCluster(t, "(vector,(0,2,2))", 4)
		var ranks []*rank
		for n := range 4 {
			ranks = append(ranks, c.rank(t, n))
		}
		var all sync.WaitGroup
		for _, n := range rand.New(rand.NewPCG(uint64(round), 0)).Perm(4) {
			all.Go(func() {
				r := ranks[n]
				r.send(fmt.Sprintf("cmd=put key=k%d value=v\n", n))
				r.expect("cmd=put_result rc=0\n")
				r.send(fmt.Sprintf("cmd=barrier_in group=%d,%d\n", n%2, n%2+2))
				r.expect("cmd=barrier_out rc=0 tag=0\n")
				r.send(fmt.Sprintf("cmd=get key=k%d\n", (n+2)%4))
				r.expect("cmd=get_result rc=0 value=v\n")
			})
		}
		all.Wait()
	}
}

// A rank that dies in a barrier affects neither its server nor the other ranks.
func TestRankDiesInBarrier(t *testing.T) {
	c := newCluster(t, "(vector,(0,2,2))", 4)
	dead, alive := c.rank(t, 0), c.rank(t, 1)
	dead.send("cmd=barrier_in\n")
	dead.conn.Close()
	<-dead.done
	alive.send("cmd=put key=a value=b\n")
	alive.expect("cmd=put_result rc=0\n")
	alive.send("cmd=barrier_in group=NODE\n")
	alive.conn.Close()
	<-alive.done
	if _, all := c.messages(); all != 0 {
		t.Errorf("%d messages although no barrier was complete", all)
	}
}

// Receive and Deliver return an error for invalid messages.
func TestInvalidExchangeMessages(t *testing.T) {
	const mapping = "(vector,(0,2,2))"
	long := strings.Repeat("x", valueMax)
	for name, c := range map[string]struct {
		node  int
		group string
		put   *Put
		name  *NameRequest
	}{
		"no such node":            {node: 2},
		"a put of another node":   {put: &Put{Rank: 2, Key: []byte("k")}},
		"a put of no rank":        {put: &Put{Rank: -1, Key: []byte("k")}},
		"a put too long":          {put: &Put{Value: []byte(long)}},
		"a key too long":          {put: &Put{Key: []byte(long)}},
		"name of another node":    {name: &NameRequest{Rank: 3}},
		"name of no rank":         {name: &NameRequest{Rank: 99}},
		"no such group":           {group: "1,9:0"},
		"not the key of a group":  {group: "3,1"},
		"a group of another node": {group: "2,3:0"},
		"a group of no node":      {group: "NODE:0"},
	} {
		x, err := NewExchange(mapping, 4)
		if err != nil {
			t.Fatal(err)
		}
		p := &ExchangeMessage{Group: c.group, Name: c.name}
		if c.put != nil {
			p.Puts = []Put{*c.put}
		}
		if _, err := x.Receive(c.node, p); !errors.Is(err, errExchange) {
			t.Errorf("%s: %v", name, err)
		}
	}
	x, err := NewExchange(mapping, 4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Receive(0, &ExchangeMessage{}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Receive(0, &ExchangeMessage{}); !errors.Is(err, errExchange) {
		t.Errorf("a barrier entered twice: %v", err)
	}
	for i := 0; err == nil; i++ {
		if i > 4*maxRankBytes {
			t.Fatal("the size of the log is not limited")
		}
		_, err = x.Receive(0, &ExchangeMessage{More: true, Puts: slices.Repeat([]Put{{Value: make([]byte, 1000)}}, 100)})
	}
	s := newTestServer(t, Job{Size: 4, Mapping: mapping, ToExchange: func(*ExchangeMessage) {}})
	for _, p := range []*ExchangeMessage{{}, {Group: "WORLD:1"}, {Puts: []Put{{Rank: 9}}}} {
		if err := s.Deliver(p); !errors.Is(err, errExchange) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if err := newTestServer(t, Job{Size: 4}).Deliver(&ExchangeMessage{}); !errors.Is(err, errExchange) {
		t.Errorf("a server of all ranks: %v", err)
	}
}

// An exchange forgets the puts that all nodes have received.
func TestExchangeMemory(t *testing.T) {
	x, err := NewExchange("(vector,(0,2,1))", 2)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		for node := range 2 {
			put := Put{Rank: node, Key: []byte("k"), Value: make([]byte, 1000)}
			if _, err := x.Receive(node, &ExchangeMessage{Puts: []Put{put}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(x.log) != 0 || x.bytes != 0 || len(x.arrived) != 0 {
		t.Errorf("%d puts of %d bytes and %d barriers are still stored", len(x.log), x.bytes, len(x.arrived))
	}
}

// A node waits in no more barriers than its ranks can, so what is stored of barriers that never complete is bounded. Those that
// complete make room for others.
func TestExchangeBarriers(t *testing.T) {
	x, err := NewExchange("(vector,(0,2,2))", 4)
	if err != nil {
		t.Fatal(err)
	}
	enter := func(node, tag int) error {
		_, err := x.Receive(node, &ExchangeMessage{Group: fmt.Sprintf("WORLD:%d", tag)})
		return err
	}
	const most = 2 * maxBarriersPerRank
	for tag := range most {
		if err := enter(1, tag); err != nil {
			t.Fatal(err)
		}
	}
	if err := enter(1, most); !errors.Is(err, errExchange) || !strings.Contains(err.Error(), "node 1 waits in 32 barriers") {
		t.Errorf("one barrier more: %v", err)
	}
	if err := errors.Join(enter(0, 5), enter(1, most)); err != nil {
		t.Errorf("after a barrier is complete: %v", err)
	}
}

func FuzzExchange(f *testing.F) {
	f.Add([]byte(`{"Group":"WORLD:3","Puts":[{"Rank":1,"Key":"a2V5","Value":"dg=="}]}`), 0)
	f.Add([]byte(`{"Group":"0,2:7"}`), 1)
	f.Add([]byte(`{"Name":{"Rank":2,"Cmd":"publish_name","Service":"cw==","Port":"cA=="}}`), 1)
	f.Add([]byte(`{"More":true}`), 3)
	f.Fuzz(func(t *testing.T, text []byte, node int) {
		var p ExchangeMessage
		if json.Unmarshal(text, &p) != nil {
			return
		}
		x, err := NewExchange("(vector,(0,2,2))", 4)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{node, 0, 1} {
			list, err := x.Receive(n, &p)
			for _, d := range list {
				if err != nil || slices.Max(d.Nodes) > 1 || slices.Min(d.Nodes) < 0 {
					t.Errorf("%+v, %v", d, err)
				}
			}
		}
		s := newTestServer(t, Job{Size: 4, Mapping: "(vector,(0,2,2))", ToExchange: func(*ExchangeMessage) {}})
		_ = s.Deliver(&p) // returns an error for most messages; it must not crash
	})
}
