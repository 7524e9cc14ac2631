package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/outbox"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/watcher"
	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/internal/pmi"
)

// sockets returns two sockets that are connected.
func sockets(t testing.TB) [2]int {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fds
}

// connect returns both ends of the connection between node 0 and node 1. What is sent is received and dropped.
func connect(t testing.TB) (ofCoordinator, ofNode1 *control.Conn) { return connectOver(t, sockets(t)) }

// connectOver is connect over these sockets.
func connectOver(t testing.TB, fds [2]int) (ofCoordinator, ofNode1 *control.Conn) {
	t.Helper()
	ofCoordinator, ofNode1 = connectUnread(t, fds)
	for _, c := range []*control.Conn{ofCoordinator, ofNode1} {
		go func() {
			for {
				if _, err := c.Recv(); err != nil {
					return
				}
			}
		}()
	}
	return ofCoordinator, ofNode1
}

// connectUnread is connectOver for a test that reads what the nodes send.
func connectUnread(t testing.TB, fds [2]int) (ofCoordinator, ofNode1 *control.Conn) {
	t.Helper()
	pipe := func(fd int, local, remote string) *control.Pipe {
		again, err := unix.Dup(fd)
		if err != nil {
			t.Fatal(err)
		}
		p, err := control.NewPipe(os.NewFile(uintptr(fd), local), os.NewFile(uintptr(again), local), local, remote)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	zero, one := pipe(fds[0], "n0", "n1"), pipe(fds[1], "n1", "n0")
	security, err := control.NewSecurity(auth.NewSecret(make([]byte, 32)), false)
	if err != nil {
		t.Fatal(err)
	}
	joined := make(chan error, 1)
	go func() {
		var err error
		ofNode1, err = control.JoinPipe(context.Background(), one, security, 1, 2)
		joined <- err
	}()
	explain := func() error { return control.ErrPipe }
	if ofCoordinator, err = control.ServePipe(context.Background(), zero, security, 1, 2, time.Minute, explain); err != nil {
		t.Fatal(err)
	}
	if err := <-joined; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ofCoordinator.Close)
	t.Cleanup(ofNode1.Close)
	return ofCoordinator, ofNode1
}

// hostileTask is the task of a node of two with four ranks, two on each.
func hostileTask(node int) *protocol.Task {
	t := &protocol.Task{JobID: "j", Host: "n0", Node: node, Nodes: 2, Size: 4, Mapping: "(vector,(0,2,2))",
		Programs: []protocol.ProgramTask{{Ranks: 4}}}
	for i := range 2 {
		t.Ranks = append(t.Ranks, protocol.RankTask{Rank: 2*node + i})
	}
	return t
}

// hostileAgent is a local agent that answers every request for stacks. other is the node that its monitor can query; asked
// receives each question to it.
func hostileAgent(t *protocol.Task, other *monitor.RemoteNode, asked chan<- uint64) *localAgent {
	l := &localAgent{task: t, command: &watcher.Running{PIDFD: -1}, orders: outbox.New(func([]byte) error { return nil }),
		started: true}
	l.monitor = monitor.New(t, nil, console.Streams{}, func(o *protocol.Order) {
		for _, rank := range o.Stacks {
			l.monitor.DeliverStacks(rank, "goroutine 1 [running]:")
		}
	})
	other.Send = func(q *protocol.Question, a *protocol.Answer) {
		if q != nil {
			asked <- q.ID
		}
	}
	l.monitor.ConnectNodes([]string{"n0", "n0", "n1", "n1"}, []*monitor.RemoteNode{other})
	return l
}

// ask makes the monitor of a hostileAgent query the other node about all ranks, or about the stacks of all, and then calls with.
func ask(l *localAgent, asked <-chan uint64, stacks bool, with func()) {
	ctx, cancel := context.WithCancel(context.Background())
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if stacks {
			_, _ = l.monitor.Stacks(ctx, []int{0, 1, 2, 3}) // it never fails
		} else {
			_, _ = l.monitor.Ranks(ctx)
		}
	}()
	<-asked
	with()
	cancel()
	<-answered
}

// The states of the receiver of a message: bits of the number that a fuzz target gets.
const (
	forwardsOutput = 1 << iota
	forwardsInput
	hasPrograms
	isEnding
	userHasAsked
	hasFailed
	asksForRanks
	asksForStacks
	othersExited
	isDone
	reports
	states
)

// hostileCoordinator returns the coordinator of node 0 in a state, with node 1 at conn.
func hostileCoordinator(t testing.TB, conn *control.Conn, file string, state uint) (*coordinator, <-chan uint64) {
	task := hostileTask(0)
	exchange, err := pmi.NewExchange(task.Mapping, task.Size)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan uint64, 1)
	c := &coordinator{cluster: &Cluster{}, task: task, failures: newFailureTracker(4), left: newLeftRanks(4), exchange: exchange,
		settings:   &RunSettings{Report: ReportSettings{Bare: true, Commands: [][]string{{"p"}}}},
		lastOutput: map[int]lastOutput{}, lostOutput: map[int]string{}, local: hostileAgent(task,
			&monitor.RemoteNode{Number: 1, Ranks: []int{2, 3}}, asked),
		nodes: []*node{{name: "n0", ranks: []int{0, 1}}, {name: "n1", number: 1, ranks: []int{2, 3}, conn: conn}}}
	n := c.nodes[1]
	has := func(bit uint) bool { return state&bit != 0 }
	if has(forwardsOutput) {
		ack := func(*protocol.OutputAck) {}
		c.output = &mergedOutput{queues: [][2]*chunkQueue{{}, {newChunkQueue(1, ack), newChunkQueue(2, ack)}}}
		n.output = c.output
	}
	if has(forwardsInput) {
		n.input = &inputSender{send: func(*protocol.Order) {}, done: make(chan struct{}), unread: 10}
		n.input.changed.L = &n.input.mu
	}
	if has(hasPrograms) {
		n.programs = []protocol.ProgramFile{{Path: protocol.Text(file), SHA256: []byte("x"), Size: 4}, {}}
	}
	if has(reports) {
		c.recorder = monitor.NewNodeRecorder(task, true)
	}
	if has(othersExited) {
		for _, rank := range c.nodes[0].ranks {
			for _, kind := range []protocol.Kind{protocol.EventInit, protocol.EventFinalize, protocol.EventExit} {
				c.handleEvent(c.nodes[0], &protocol.Event{Kind: kind, Rank: rank})
			}
		}
	}
	if has(userHasAsked) {
		c.requestEnd(unix.SIGTERM, false)
	}
	if has(hasFailed) {
		c.fail(c.nodes[0], 3, "the job has failed", "node 0 has failed")
	}
	if has(isEnding) {
		c.endJob(0)
	}
	n.done = has(isDone)
	return c, asked
}

// handleAll processes lines of events of node 1.
func (c *coordinator) handleAll(conn *control.Conn, lines []byte) {
	for line := range bytes.Lines(lines) {
		e, err := decodeEvent(line)
		r := receivedEvent{conn: conn, event: e, err: err}
		if err != nil {
			r.loss = newLoss(conn, err, time.Now())
		}
		c.handleRemote(r)
	}
}

// smallFile returns the name of a file of four bytes.
func smallFile(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(name, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// An event that a node may not send in this state of the job is refused: the job ends, and the node is named.
func TestRefusedEvents(t *testing.T) {
	conn, _ := connect(t)
	for name, c := range map[string]struct {
		state uint
		lines string
		why   string
	}{
		"input that nobody has sent": {0, `{"Kind":"taken","InputTaken":{"Bytes":1}}`, "input that was not sent"},
		"closed input without any":   {0, `{"Kind":"taken","InputTaken":{"Closed":true}}`, "input that was not sent"},
		"more input than was sent":   {forwardsInput, `{"Kind":"taken","InputTaken":{"Bytes":11}}`, "input that was not sent"},
		"the same input again": {forwardsInput, strings.Repeat(`{"Kind":"taken","InputTaken":{"Bytes":6}}`+"\n", 2),
			"input that was not sent"},
		"output where none is forwarded": {forwardsInput, `{"Kind":"output","Stream":1,"Data":"eA=="}`, "does not write"},
		"done before the end":            {0, `{"Kind":"done","Rank":-1}`, "was not ordered to end"},
		"done with another node's rank":  {isEnding, `{"Kind":"done","Rank":1,"Text":"x"}`, `invalid event "done" for rank 1`},
		"a file again":                   {hasPrograms, strings.Repeat(`{"Kind":"file"}`+"\n", 2), "asks for the file of program 0"},
		"a file that is not sent":        {hasPrograms, `{"Kind":"file","Code":1}`, "asks for the file of program 1"},
		"an answer about other ranks":    {asksForRanks, `{"Kind":"look","Answer":{"Ranks":[{"Rank":0}]}}`, "ranks of other nodes"},
		"stacks of other ranks":          {asksForStacks, `{"Kind":"look","Answer":{"Stacks":{"1":"x"}}}`, "ranks of other nodes"},
		"a question with an answer":      {0, `{"Kind":"look","Question":{"ID":1},"Answer":{"ID":1}}`, `invalid event "look"`},
		"itself twice":                   {0, strings.Repeat(`{"Kind":"facts","Facts":{}}`+"\n", 2), "itself twice"},
		"an unknown event":               {0, `{"Kind":"unheard of"}`, `invalid event "unheard of"`},
		"no event":                       {0, `[]`, "invalid event: json"},
	} {
		co, _ := hostileCoordinator(t, conn, smallFile(t), c.state)
		co.handleAll(conn, []byte(c.lines))
		v := co.outcome()
		want := "the ibrun of node 1 (n1) at n1 does not follow the protocol: it "
		if got := strings.Join(v.Lines(), "\n"); v.Code != exitcode.Failed || !strings.HasPrefix(got, want) ||
			!strings.Contains(got, c.why) || !strings.Contains(got, "please report it") {
			t.Errorf("%s: code %d, %q", name, v.Code, got)
		}
	}
}

// hostileEvents returns events of each kind, most of which a node may send in some state.
func hostileEvents(t testing.TB) [][]byte {
	events, _ := testMessages(t)
	return append(events, []byte(`{"Kind":"taken","InputTaken":{"Bytes":1}}`), []byte(`{"Kind":"file"}`),
		[]byte(`{"Kind":"recorded","Rank":2,"Recorded":{"Profile":true,"Data":"eA=="}}`),
		[]byte(`{"Kind":"output lost","Rank":3,"Code":1,"Text":"why"}`),
		[]byte(`{"Kind":"look","Answer":{"ID":1,"Ranks":[{"Rank":2}],"Stacks":{"3":"goroutine 1"}}}`))
}

// hostileOrders returns orders of each kind, most of which node 0 may send in some state.
func hostileOrders(t testing.TB) [][]byte {
	_, orders := testMessages(t)
	return append(orders, []byte(`{"Left":[1]}`), []byte(`{"Answer":{"ID":1,"Ranks":[{"Rank":0}],"Stacks":{"1":"goroutine 1"}}}`))
}

// addInStates adds each message as a seed in each state, and all of them one after another but for those after which the rest is
// ignored. They contain one of the texts in last, and follow at the end.
func addInStates(f *testing.F, messages [][]byte, last ...string) {
	var first, rest [][]byte
	for _, text := range messages {
		if slices.ContainsFunc(last, func(s string) bool { return bytes.Contains(text, []byte(s)) }) {
			rest = append(rest, text)
		} else {
			first = append(first, text)
		}
	}
	all := bytes.Join(append(first, rest...), []byte("\n"))
	for _, state := range eachState() {
		f.Add(state, all)
		for _, text := range messages {
			f.Add(state, append(append(bytes.Clone(text), '\n'), text...))
		}
	}
}

// eachState returns the state without any bit, those with one, and one with all that forbid little.
func eachState() []uint {
	list := []uint{0, (states - 1) &^ (isDone | hasFailed)}
	for bit := uint(1); bit < states; bit <<= 1 {
		list = append(list, bit)
	}
	return list
}

// Each kind of event and of order is accepted in some state that the fuzz targets begin with: a check that refuses one always
// would make them useless for it, and the job fail.
func TestAcceptedMessages(t *testing.T) {
	conn, ofNode1 := connect(t)
	accepted := map[string]bool{}
	for _, state := range eachState() {
		c, _ := hostileCoordinator(t, conn, smallFile(t), state)
		for _, text := range hostileEvents(t) {
			e, err := decodeEvent(text)
			if err != nil {
				t.Fatal(err)
			}
			if c.nodes[1].checkEvent(e) == nil {
				accepted[string(e.Kind)] = true
			}
		}
		w, _ := hostileWorker(ofNode1, state)
		for _, text := range hostileOrders(t) {
			o, err := decodeOrder(text)
			if err != nil {
				t.Fatal(err)
			}
			if w.checkOrder(o) == nil {
				accepted[setFields(o)[0]] = true
			}
		}
	}
	var want []string
	for _, kind := range []protocol.Kind{protocol.EventStarted, protocol.EventNotStarted, protocol.EventInit, protocol.EventFinalize,
		protocol.EventAbort, protocol.EventInvalidPMI, protocol.EventFailure, protocol.EventExit, protocol.EventOutputLost,
		protocol.EventExchange, protocol.EventDone, protocol.EventSignal, protocol.EventNodeRecord, protocol.EventPage,
		protocol.EventRecorded, protocol.EventInspect, protocol.EventProgress, protocol.EventOutput, protocol.EventInputTaken,
		protocol.EventNeedFile} {
		want = append(want, string(kind))
	}
	for i, fields := 0, reflect.TypeFor[protocol.Order](); i < fields.NumField(); i++ {
		if name := fields.Field(i).Name; !slices.Contains([]string{"Start", "Stacks", "Bar", "JobInfo", "File"}, name) {
			want = append(want, name)
		}
	}
	for _, kind := range want {
		if !accepted[kind] {
			t.Errorf("%q is refused in each state", kind)
		}
	}
}

// No sequence of events of another node makes node 0 panic, in whatever state it is, and none makes a failed job succeed.
func FuzzEvents(f *testing.F) {
	conn, _ := connect(f)
	file := smallFile(f)
	events := hostileEvents(f)
	addInStates(f, events, `"Kind":"done"`, `"Kind":"join"`)
	f.Add(uint(0), bytes.Join(events, []byte("\n")))
	f.Fuzz(func(t *testing.T, state uint, lines []byte) {
		synctest.Test(t, func(t *testing.T) {
			c, asked := hostileCoordinator(t, conn, file, state)
			handle := func() { c.handleAll(conn, lines) }
			if state&(asksForRanks|asksForStacks) != 0 {
				ask(c.local, asked, state&asksForStacks != 0, handle)
			} else {
				handle()
			}
			c.left.order()
			v := c.outcome()
			if v.Code < 0 || v.Code > 255 || v.Code == 0 && c.failure != nil {
				t.Errorf("state %x, %s: code %d", state, lines, v.Code)
			}
			c.writeReport(v, time.Now(), time.Second)
			if f := c.failure; f != nil && f.lost && !strings.Contains(f.reason, "node 1 (n1)") {
				t.Errorf("state %x, %s: %s", state, lines, f.reason)
			}
		})
	})
}

// hostileWorker returns the ibrun of node 1 in a state, with node 0 at conn.
func hostileWorker(conn *control.Conn, state uint) (*worker, <-chan uint64) {
	asked := make(chan uint64, 1)
	w := &worker{settings: &RunSettings{}, cluster: &Cluster{Job: protocol.JobInfo{Names: []string{"n0", "n1"}}, coordinator: conn},
		local: hostileAgent(hostileTask(1), &monitor.RemoteNode{Number: 0, Ranks: []int{0, 1}}, asked)}
	has := func(bit uint) bool { return state&bit != 0 }
	if has(forwardsOutput) || has(forwardsInput) {
		w.forward = &forwardedStreams{output: new(outputForwarder)}
		for i := range w.forward.output.streams {
			s := &forwardedStream{number: i + 1, unacked: 10}
			s.changed.L = &s.mu
			w.forward.output.streams[i] = s
		}
	}
	if has(forwardsInput) {
		w.forward.input = &inputReceiver{pending: outbox.New(func([]byte) error { return nil })}
	}
	if has(isEnding) {
		w.endRanks(0)
	}
	if has(userHasAsked) {
		w.signalRanks(unix.SIGTERM)
	}
	if has(hasFailed) {
		w.outcome = protocol.NewOutcome(exitcode.Failed, message.Message{Msg: "why"})
	}
	w.local.done = has(isDone)
	return w, asked
}

// handleAll processes lines of orders of node 0.
func (w *worker) handleAll(lines []byte) {
	for line := range bytes.Lines(lines) {
		o, err := decodeOrder(line)
		if err != nil {
			w.onCoordinatorLost(newLoss(w.cluster.coordinator, err, time.Now()))
			return
		}
		w.handleRemote(o)
	}
}

// An order that node 0 may not send in this state of the job is refused: the ranks of the node end, and node 0 is named.
func TestRefusedOrders(t *testing.T) {
	_, conn := connect(t)
	for name, c := range map[string]struct {
		state uint
		lines string
	}{
		"nothing":                        {0, `{}`},
		"two orders":                     {0, `{"Signal":2,"Left":[1]}`},
		"an order for an agent":          {0, `{"Start":{}}`},
		"a bar":                          {0, `{"Bar":{"Total":2}}`},
		"stacks":                         {0, `{"Stacks":[2]}`},
		"the job again":                  {0, `{"Welcome":{"JobID":"j"}}`},
		"a file":                         {0, `{"File":{"Data":"eA=="}}`},
		"no signal of a user":            {0, `{"Signal":11}`},
		"a negative signal":              {0, `{"Signal":-1}`},
		"a grace in the past":            {0, `{"End":{"Grace":-1}}`},
		"the output of no rank":          {0, `{"End":{"Tail":4}}`},
		"no rank has left":               {0, `{"Left":[1,4]}`},
		"input where none is forwarded":  {forwardsOutput, `{"Input":{"Data":"eA=="}}`},
		"input without streams":          {0, `{"Input":{"Data":"eA=="}}`},
		"no input":                       {forwardsInput, `{"Input":{}}`},
		"input after the end":            {forwardsInput, `{"Input":{"End":true}}` + "\n" + `{"Input":{"Data":"eA=="}}`},
		"an end with input":              {forwardsInput, `{"Input":{"End":true,"Data":"eA=="}}`},
		"output where none is forwarded": {0, `{"OutputAck":{"Stream":1}}`},
		"output of no stream":            {forwardsOutput, `{"OutputAck":{"Stream":3}}`},
		"output that was not sent":       {forwardsOutput, `{"OutputAck":{"Stream":1,"Bytes":11}}`},
		"less output than nothing":       {forwardsOutput, `{"OutputAck":{"Stream":2,"Bytes":-1}}`},
		"the state of its own ranks":     {asksForRanks, `{"Answer":{"ID":1,"Ranks":[{"Rank":2}]}}`},
		"a code that no process has":     {0, `{"Verdict":{"Code":256}}`},
		"no order":                       {0, `[]`},
	} {
		w, _ := hostileWorker(conn, c.state)
		w.handleAll([]byte(c.lines))
		if w.outcome == nil {
			t.Errorf("%s was accepted", name)
			continue
		}
		want := "the ibrun of node 0 (n0) at n0 does not follow the protocol: it "
		if got := strings.Join(w.outcome.Lines(), "\n"); w.outcome.Code != exitcode.Failed || !strings.HasPrefix(got, want) {
			t.Errorf("%s: code %d, %q", name, w.outcome.Code, got)
		}
	}
	w, _ := hostileWorker(conn, forwardsInput)
	chunk, err := json.Marshal(&protocol.Order{Input: &protocol.Input{Data: make([]byte, protocol.MaxInputChunk)}})
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	w.forward.input.pending = outbox.New(func([]byte) error { <-release; return nil })
	defer close(release)
	sent := 0
	for ; w.outcome == nil && sent < 4*protocol.InputWindow; sent += protocol.MaxInputChunk {
		w.handleAll(chunk)
	}
	if sent <= protocol.InputWindow || sent > 2*protocol.InputWindow {
		t.Errorf("%d bytes of input were accepted that rank 0 does not read; the window is %d", sent, protocol.InputWindow)
	}
}

// No sequence of orders of node 0 makes another node panic, in whatever state it is.
func FuzzOrders(f *testing.F) {
	_, conn := connect(f)
	orders := hostileOrders(f)
	addInStates(f, orders, `"Verdict"`, `"Welcome"`, `"Stacks":{"2"`)
	f.Add(uint(0), bytes.Join(orders, []byte("\n")))
	f.Fuzz(func(t *testing.T, state uint, lines []byte) {
		synctest.Test(t, func(t *testing.T) {
			w, asked := hostileWorker(conn, state)
			handle := func() { w.handleAll(lines) }
			if state&(asksForRanks|asksForStacks) != 0 {
				ask(w.local, asked, state&asksForStacks != 0, handle)
			} else {
				handle()
			}
			if v := w.outcome; v != nil && (v.Code < 0 || v.Code > 255) {
				t.Errorf("state %x, %s: code %d", state, lines, v.Code)
			}
		})
	})
}

// The description of a job by node 0 is checked before anything uses it, and so is the request of a node to join.
func TestInvalidJob(t *testing.T) {
	valid := func() *protocol.JobInfo {
		return &protocol.JobInfo{JobID: newJobID(), Names: []string{"n0", "n1"}, Heartbeat: time.Minute, MasterPort: 1,
			Started: &protocol.StartedJob{Masters: []string{"n0", "n1"}, Ports: []int{1, 2}}}
	}
	if !isJob(valid(), 2) || isJob(nil, 2) {
		t.Error("a valid job is refused, or none is accepted")
	}
	for i, damage := range []func(*protocol.JobInfo){
		func(j *protocol.JobInfo) { j.Names = nil }, func(j *protocol.JobInfo) { j.JobID = "" },
		func(j *protocol.JobInfo) { j.JobID = "../../x" }, func(j *protocol.JobInfo) { j.JobID = strings.Repeat("x", 65) },
		func(j *protocol.JobInfo) { j.MasterPort = -1 }, func(j *protocol.JobInfo) { j.Heartbeat = -1 },
		func(j *protocol.JobInfo) { j.Grace = -1 }, func(j *protocol.JobInfo) { j.FailureGrace = -1 },
		func(j *protocol.JobInfo) { j.Started.Ports = nil }, func(j *protocol.JobInfo) { j.Started.Masters = nil },
		func(j *protocol.JobInfo) { j.Started.Ports[0] = 65536 },
		func(j *protocol.JobInfo) { j.Started.Programs = []protocol.ProgramFile{{Size: -1}} },
	} {
		j := valid()
		if damage(j); isJob(j, 2) {
			t.Errorf("%d: %+v was accepted", i, j)
		}
	}
	ours := &protocol.Join{Name: "n0", Hash: "h"}
	for _, j := range []protocol.Join{{Hash: "h"}, {Name: strings.Repeat("n", 2000), Hash: "h"}, {Name: "n", Hash: "h", Port: 65536},
		{Name: "n", Hash: "h", Port: -1}} {
		if err := checkCommand(ours, 2, 1, 2, &j); err == nil || !strings.Contains(err.Error(), "node 1 sent an invalid request") {
			t.Errorf("%+v: %v", j, err)
		}
	}
}

// A node that repeats parts of an answer only replaces what it has sent before.
func TestRepeatedAnswers(t *testing.T) {
	conn, _ := connect(t)
	c, asked := hostileCoordinator(t, conn, "", asksForRanks)
	text := bytes.Repeat([]byte(`{"Kind":"look","Answer":{"ID":1,"Ranks":[{"Rank":2},{"Rank":3}],"More":true}}`+"\n"), 100)
	text = append(text, `{"Kind":"look","Answer":{"ID":1}}`...)
	count := make(chan int, 1)
	go func() {
		ranks, err := c.local.monitor.Ranks(t.Context())
		if err != nil {
			t.Error(err)
		}
		count <- len(ranks)
	}()
	<-asked
	c.handleAll(conn, text)
	if n := <-count; n != 4 {
		t.Errorf("%d ranks", n)
	}
	if c.failure != nil {
		t.Error(c.outcome().Lines())
	}
}
