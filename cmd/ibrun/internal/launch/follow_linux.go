package launch

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"golang.org/x/sys/unix"
)

// follower is ibrun on a node other than 0: it keeps the agent here and does what node 0 says.
type follower struct {
	Streams
	m        *meeting
	o        *cli.Options
	local    *local
	portrait *portrait // nil: node 0 wants no report
	asked    bool      // the user wants the job to end
	verdict  *verdict  // of node 0, or of its loss
	hard     <-chan time.Time
}

// follow has this node's ranks started, and passes on what happens to node 0 and what it orders, until that has judged.
func follow(m *meeting, where layout, t *task, o *cli.Options, s Streams) (int, error) {
	signals := make(chan os.Signal, 16)
	notify(signals, slices.Concat(askSignals(), passSignals(), []os.Signal{viewSignal}))
	defer signal.Stop(signals)
	l, err := startLocal(t, o.Verbose, s)
	if err != nil {
		return 0, err
	}
	defer l.close()
	l.looks.join(m, where)
	defer l.export(o)()
	defer l.lookOn(o)()
	l.start() // now that whoever hears of a rank can look on
	f := &follower{Streams: s, m: m, o: o, local: l, portrait: newPortrait(l, m.welcome.Report)}
	if o.Report && !m.welcome.Report {
		f.say("--report: node 0 reports, and was not told to")
	}
	f.watch(signals)
	l.cleanUp()
	for _, line := range f.verdict.Lines {
		f.say("%s", line)
	}
	m.zero.Close()
	return f.verdict.Code, nil
}

// watch returns when node 0 has judged and nothing is left here, or the user does not want to wait for that.
func (f *follower) watch(signals <-chan os.Signal) {
	events, orders := f.local.events, f.m.orders
	for f.verdict == nil || !f.local.done {
		select {
		case e, alive := <-events:
			switch {
			case alive:
				f.hear(e)
			case f.local.done:
				events = nil
			default:
				events = nil
				f.agentDied()
			}
		case o, alive := <-orders:
			if !alive {
				orders = nil
				f.zeroLost()
				continue
			}
			f.obey(o)
		case sig := <-signals:
			f.signal(sig.(syscall.Signal))
		case <-f.hard:
			if f.verdict == nil {
				f.verdict = &verdict{Code: codeFailed, Lines: []string{"node 0 did not end the job, so this node leaves it"}}
			}
			return // cleanUp kills the agent too
		}
	}
}

// hear passes on what the agent says.
func (f *follower) hear(e *event) {
	if f.local.hear(e) {
		return
	}
	if e.Kind == evDone {
		f.local.looks.lastProgress() // no rank is left
		f.handIn()
		f.portrait.send(f.m)
	}
	f.m.report(e)
}

func (f *follower) agentDied() {
	f.local.cleanUp()
	f.local.done = true
	f.handIn()
	f.m.report(&event{Kind: evFault, Code: codeFailed, Text: f.local.epitaph()})
	f.portrait.send(f.m)
	f.m.report(&event{Kind: evDone, Rank: -1})
}

// obey does what node 0 says. A verdict comes when nothing is left, or should not be.
func (f *follower) obey(o *order) {
	switch {
	case o.Verdict != nil:
		f.verdict = o.Verdict
		if !f.local.done {
			f.local.order(&order{End: &ending{Tail: -1}})
			f.hard = time.After(agentPatience)
		}
	case o.Question != nil, o.Answer != nil:
		f.local.looks.hearFar(0, o.Question, o.Answer)
	case o.Signal != 0, o.End != nil, o.Parcel != nil:
		f.local.order(&order{Signal: o.Signal, End: o.End, Parcel: o.Parcel})
	}
}

// zeroLost ends what runs here when node 0 has gone, unless it has judged.
func (f *follower) zeroLost() {
	if f.verdict != nil {
		return
	}
	why := fmt.Sprintf("node 0 at %v is lost: %v", f.m.zero.Remote(), f.m.lost)
	f.verdict = &verdict{Code: codeFailed, Lines: []string{why}}
	f.local.order(&order{End: &ending{Grace: grace, Tail: -1}})
}

// signal does here what a signal does on node 0, which hears of it.
func (f *follower) signal(sig syscall.Signal) {
	if sig == viewSignal { // whoever asked sees it, and nobody else
		f.local.looks.view()
		return
	}
	f.m.report(&event{Kind: evSignal, Signal: int(sig)})
	switch sig {
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP:
		if f.asked {
			f.hard = time.After(2 * agentPatience) // node 0 does it unless it hangs
			return
		}
		f.asked = true
		f.say("asking the ranks to end (%s); once more kills them", unix.SignalName(sig))
	case unix.SIGTSTP:
		f.local.order(&order{Signal: int(unix.SIGSTOP)}) // node 0's order comes too late
		f.m.zero.Hold()
		f.local.stop()
	case unix.SIGCONT:
		f.m.zero.Resume()
	}
}
