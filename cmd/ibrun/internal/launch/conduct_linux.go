package launch

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/report"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/pmi"
	"golang.org/x/sys/unix"
)

func supported() error { return nil }

// conductor watches one job, on node 0.
type conductor struct {
	Streams
	m        *meeting
	o        *cli.Options
	t        *task
	judge    *judge
	local    *local
	nodes    []*node
	exchange *pmi.Exchange
	portrait *portrait // nil: no report is wanted

	recorded collection // of other nodes

	fault *fault // the first
	asked bool   // the user wants the job to end
	ended bool   // the agents were told to end the job
	late  bool   // the job did not end within --timeout
	hard  <-chan time.Time
	tails map[int]string // the last output of ranks
	lost  []string       // which output was not passed on, and why
}

// node is one node of the job, as the conductor sees it.
type node struct {
	number int
	name   string
	ranks  []int         // which are its own, ascending
	conn   *control.Conn // nil: this one
	done   bool          // nothing of the job is left there
	excess bool          // it has handed in more than it should

	// What another node has told for the report.
	facts *report.Node
	pages map[int]report.Rank
}

// conduct has the ranks started and watches them, on all nodes, until nothing of the job is left.
func conduct(m *meeting, where layout, t *task, o *cli.Options, s Streams) (int, error) {
	signals := make(chan os.Signal, 16)
	notify(signals, slices.Concat(askSignals(), passSignals(), []os.Signal{viewSignal}))
	defer signal.Stop(signals)
	exchange, err := pmi.NewExchange(t.Mapping, t.Size)
	if err != nil {
		return 0, err
	}
	l, err := startLocal(t, o.Verbose, s)
	if err != nil {
		return 0, err
	}
	defer l.close()
	l.looks.join(m, where)
	defer l.export(o)()
	defer l.lookOn(o)()
	l.start() // now that whoever hears of a rank can look on
	began := time.Now()
	c := &conductor{Streams: s, m: m, o: o, t: t, judge: newJudge(t.Size), local: l, exchange: exchange,
		portrait: newPortrait(l, o.Report), tails: map[int]string{}}
	for i := range t.Nodes {
		n := &node{number: i, name: t.Host, ranks: where.of[i]}
		if i > 0 {
			n.name, n.conn = m.guests[i].Name, m.guests[i].conn
		}
		c.nodes = append(c.nodes, n)
	}
	c.watch(signals)
	l.cleanUp()
	wall := time.Since(began)
	if c.o.Verbose {
		c.say("the job took %v", wall.Round(time.Millisecond))
	}
	v := c.verdict()
	for _, line := range v.Lines {
		c.say("%s", line)
	}
	m.end(v)
	c.report(v, began, wall)
	c.write()
	return v.Code, nil
}

// order tells all agents something.
func (c *conductor) order(o *order) {
	if !c.nodes[0].done {
		c.local.order(o)
	}
	c.m.tell(o)
}

// watch returns when nothing is left on any node, or the user does not want to wait for that.
func (c *conductor) watch(signals <-chan os.Signal) {
	var timeout <-chan time.Time
	if c.o.Timeout > 0 {
		timeout = time.After(c.o.Timeout)
	}
	var shown <-chan struct{} // after the timeout: the view has been
	var unread <-chan time.Time
	events := c.local.events
	for slices.ContainsFunc(c.nodes, func(n *node) bool { return !n.done }) {
		select {
		case e, alive := <-events:
			if alive {
				c.hear(c.nodes[0], e)
			} else {
				events = nil
				c.agentDied()
			}
		case h := <-c.m.heard:
			c.hearFar(h)
		case sig := <-signals:
			c.signal(sig.(syscall.Signal), true)
		case <-timeout:
			shown, unread = c.local.looks.view(), time.After(viewPatience)
		case <-shown:
			shown, unread = nil, nil
			c.timeUp()
		case <-unread:
			shown = nil
			c.timeUp()
		case <-c.hard:
			return // cleanUp kills the agent too
		}
	}
}

// timeUp ends the job because of --timeout: the ranks, and then the wait for their output, which may take for ever.
func (c *conductor) timeUp() {
	what := "all ranks had ended, and ibrun was not done with what they left"
	if running := c.judge.running(); len(running) > 0 {
		what = "ranks " + hw.FormatList(running)
		if c.t.Nodes == 1 {
			what += " on " + c.t.Host
		}
		what += " were running"
	}
	c.late = true
	c.fail(c.nodes[0], codeTimeout, fmt.Sprintf("the job did not end within %v (--timeout); %s", c.o.Timeout, what))
	c.order(c.ending(grace)) // also where the end has been ordered before
}

// agentDied sees to what the agent of this node has left, unless it was done.
func (c *conductor) agentDied() {
	if c.nodes[0].done {
		return
	}
	c.local.cleanUp()
	c.nodes[0].done = true
	c.fail(c.nodes[0], codeFailed, c.local.epitaph())
}

// hearFar takes in what another node says.
func (c *conductor) hearFar(h heard) {
	i := slices.IndexFunc(c.nodes, func(n *node) bool { return n.conn == h.conn })
	if i < 0 && h.event != nil && h.event.Kind == evJoin {
		c.m.refuse(h.conn, fail(codeUsage, "the job has started, with another node %d", h.conn.Node()))
	}
	if i < 0 || c.nodes[i].done {
		return // it was never let in, or it has said its last word
	}
	n, err := c.nodes[i], h.err
	if err == nil {
		err = n.check(h.event)
	}
	if err != nil {
		n.done = true
		c.fail(n, codeFailed, fmt.Sprintf("node %d (%s) at %v is lost: %v", n.number, n.name, n.conn.Remote(), err))
		return
	}
	c.hear(n, h.event)
}

// has tells whether a rank is one of this node.
func (n *node) has(rank int) bool {
	_, found := slices.BinarySearch(n.ranks, rank)
	return found
}

// check refuses events that no agent of this node sends.
func (n *node) check(e *event) error {
	ok := false
	switch e.Kind {
	case evStarted:
		ok = len(e.Ranks) == len(e.PIDs) && len(e.Ranks) <= len(n.ranks) && slices.Equal(e.Ranks, n.ranks[:len(e.Ranks)])
	case evNotStarted:
		ok = (e.Rank == -1 || n.has(e.Rank)) && isCode(e.Code) && e.Code != 0
	case evInit, evFinalize, evAbort:
		ok = n.has(e.Rank)
	case evExit:
		ok = n.has(e.Rank) && isCode(e.Code) && isCode(e.Signal) && isCode(codeSignal+e.Signal)
	case evParcel:
		ok = e.Parcel != nil
	case evRecorded:
		ok = n.has(e.Rank) && e.Recorded != nil
	case evSignal:
		ok = slices.Contains(append(askSignals(), passSignals()...), os.Signal(syscall.Signal(e.Signal)))
	case evLook:
		ok = e.Question != nil || e.Answer != nil
	case evProgress:
		ok = e.Progress != nil
	case evFacts:
		ok = e.Facts != nil && n.facts == nil && n.hasAll(e.Facts.Ranks)
	case evPage:
		ok = n.has(e.Rank)
	case evFault:
		ok = isCode(e.Code) && e.Code != 0
	case evDone:
		ok = true
	}
	if !ok {
		return fmt.Errorf("it says %q of rank %d, which makes no sense", e.Kind, e.Rank)
	}
	return nil
}

// isCode tells whether a process can end with this code.
func isCode(code int) bool { return code >= 0 && code <= 255 }

// hear takes in what an agent says.
func (c *conductor) hear(n *node, e *event) {
	if n.conn == nil && c.local.hear(e) {
		return
	}
	switch e.Kind {
	case evParcel:
		c.exchangeParcel(n, e.Parcel)
	case evRecorded:
		c.hand(n, e)
	case evSignal:
		c.signal(syscall.Signal(e.Signal), false)
	case evFault:
		c.fail(n, e.Code, e.Text)
	case evFacts:
		n.facts = e.Facts
	case evPage:
		n.keepPage(e)
	case evProgress:
		c.local.looks.hearProgress(n.number, *e.Progress)
	case evLook:
		c.local.looks.hearFar(n.number, e.Question, e.Answer)
	case evDone:
		n.done = true
		c.lost = append(c.lost, e.Output...)
		if e.Text != "" {
			c.tails[e.Rank] = e.Text
		}
	}
	if f := c.judge.hear(e); f != nil {
		f.node, f.when = n.number, e.Time
		// What the end of the job has brought about is no reason for it, even if clocks that differ a little make it the
		// earlier.
		if !e.Told || c.fault == nil {
			c.blame(f)
		}
		if !c.asked {
			c.end(grace)
		}
	}
	if c.judge.allLeft() {
		c.end(grace)
	}
}

// exchangeParcel passes on what the PMI servers of the nodes say to each other.
func (c *conductor) exchangeParcel(n *node, p *pmi.Parcel) {
	list, err := c.exchange.Take(n.number, p)
	if err != nil {
		c.fail(n, codeFailed, fmt.Sprintf("node %d (%s): %v", n.number, n.name, err))
		return
	}
	for _, d := range list {
		o := &order{Parcel: &d.Parcel}
		far := pack(o)
		for _, to := range d.Nodes {
			if to == 0 {
				c.local.order(o)
			} else {
				far(c.nodes[to].conn)
			}
		}
	}
}

// fail ends the job for a reason other than a rank.
func (c *conductor) fail(n *node, code int, why string) {
	c.blame(&fault{rank: -1, code: code, why: why, node: n.number, when: time.Now().UnixNano()})
	c.end(grace)
}

// blame keeps the first fault: later ones mostly follow from it. One on another node may be heard of a little late.
func (c *conductor) blame(f *fault) {
	if c.fault != nil && !f.before(c.fault) {
		return
	}
	c.fault = f
	if c.ended {
		c.order(c.ending(grace)) // whose last output is wanted has changed
	}
}

// end has the agents end the job, with that time between SIGTERM and SIGKILL.
func (c *conductor) end(grace time.Duration) {
	if c.ended && grace > 0 {
		return
	}
	c.ended = true
	c.order(c.ending(grace))
}

func (c *conductor) ending(grace time.Duration) *order {
	tail := -1
	if c.fault != nil {
		tail = c.fault.rank
	}
	e := &ending{Grace: grace, Tail: tail}
	if c.late {
		e.Output = agentPatience
	}
	return &order{End: e}
}

// signal does what a signal to ibrun means, this one or that of another node: the first that asks for the end is
// passed on, the second kills.
func (c *conductor) signal(sig syscall.Signal, here bool) {
	switch sig {
	case viewSignal:
		c.local.looks.view()
		return
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP:
		if !c.asked && !c.ended {
			c.asked, c.judge.asked = true, true
			c.say("asking the ranks to end (%s); once more kills them", unix.SignalName(sig))
			break
		}
		why := fmt.Sprintf("the ranks did not end when asked, and were killed (%s)", unix.SignalName(sig))
		c.blame(&fault{rank: -1, code: codeSignal + int(sig), why: why, when: time.Now().UnixNano()})
		c.end(0)
		c.hard = time.After(agentPatience)
		return
	case unix.SIGTSTP:
		c.order(&order{Signal: int(unix.SIGSTOP)})
		if here {
			for _, n := range c.nodes[1:] {
				n.conn.Hold() // that this one stops is not its death
			}
			c.local.stop()
		}
		return
	case unix.SIGCONT:
		for _, n := range c.nodes[1:] {
			n.conn.Resume()
		}
	}
	c.order(&order{Signal: int(sig)})
}

// verdict says why the job failed, if it did, and with which exit code.
func (c *conductor) verdict() *verdict {
	f := c.fault
	if f == nil {
		return &verdict{}
	}
	v := &verdict{Code: f.code}
	if f.rank < 0 {
		v.Lines = append(append(v.Lines, f.why), c.lost...)
		return v
	}
	if tail := c.tails[f.rank]; tail != "" && !c.asked {
		v.Lines = append(v.Lines, fmt.Sprintf("the last output of rank %d was", f.rank))
		for line := range strings.Lines(tail) {
			v.Lines = append(v.Lines, "  | "+strings.TrimSuffix(line, "\n"))
		}
	}
	at := slices.IndexFunc(c.nodes, func(n *node) bool { return n.has(f.rank) })
	who := fmt.Sprintf("rank %d on %s", f.rank, c.nodes[at].name)
	if pid := c.judge.ranks[f.rank].pid; pid != 0 {
		who += fmt.Sprintf(" (pid %d)", pid)
	}
	v.Lines = append(append(v.Lines, who+" "+f.why), c.lost...)
	return v
}
