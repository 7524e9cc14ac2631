package coordinator

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// userRequests recognises the second request of the user of this ibrun to end the job, which kills the ranks.
type userRequests struct {
	slurm  bool // this process is part of a Slurm job
	first  time.Time
	signal syscall.Signal // of the first
	grace  time.Duration  // that the ranks have
	// due receives when it is printed that a further signal counts as the second request. Nil: never, or it was.
	due <-chan time.Time
}

// How long further signals belong to the first request. A user who presses Ctrl-C sends one SIGINT. Programs send the other
// signals, and often several: timeout(1) sends SIGTERM twice, and systemd SIGTERM and SIGHUP. When a terminal is closed, the
// kernel and the shell both send SIGHUP. They can be far apart on a busy machine.
const (
	sameRequest        = 50 * time.Millisecond
	sameProgramRequest = time.Second
)

// newUserRequests returns the requests before the first one.
func newUserRequests() userRequests { return userRequests{slurm: os.Getenv("SLURM_JOB_ID") != ""} }

// same returns how long after the first request a signal belongs to that request. always is set if it belongs to it at any time,
// as SIGTERM does in a Slurm job. When the time limit is over, slurmd sends SIGTERM for the limit, and again for the end of the
// job. If the job does not end, slurmd kills it.
func (u *userRequests) same(sig syscall.Signal) (limit time.Duration, always bool) {
	switch {
	case sig == unix.SIGINT:
		return sameRequest, false
	case sig == unix.SIGTERM && u.slurm:
		return sameRequest, true
	}
	return sameProgramRequest, false
}

// announce prints that a further signal kills the ranks, unless that was printed.
func (u *userRequests) announce(s console.Streams) {
	if u.due == nil {
		return
	}
	killer := "a second signal"
	if _, always := u.same(u.signal); always {
		killer = "SIGINT"
	}
	s.Warn("the ranks were asked to end", console.Attrs{Signal: int(u.signal), SignalName: unix.SignalName(u.signal),
		LimitSeconds: u.grace.Seconds(), Text: fmt.Sprintf("asking the ranks to end (%s); they have %v (--grace); %s kills them",
			unix.SignalName(u.signal), u.grace, killer)})
	u.due = nil
}

// began records that the ranks were asked to end. The announcement follows later: a user who has read it may send a second
// signal.
func (u *userRequests) began(sig syscall.Signal, grace time.Duration) {
	u.signal, u.grace = sig, grace
	limit, _ := u.same(sig)
	u.due = time.After(limit)
}

// add records a signal that asks the job to end. It returns whether it is the first request, or whether it is the second.
func (u *userRequests) add(sig syscall.Signal, now time.Time) (first, second bool) {
	if u.first.IsZero() {
		u.first = now
		return true, false
	}
	limit, always := u.same(sig)
	return false, !always && now.Sub(u.first) > limit
}

// handleSignal handles a signal that the user has sent to this ibrun. The orders are sent before anything is printed.
func (c *coordinator) handleSignal(sig syscall.Signal) {
	switch sig {
	case console.HangViewSignal:
		c.local.monitor.ShowHangView()
		return
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP:
		_, second := c.requests.add(sig, time.Now())
		c.requestEnd(sig, second)
		return
	case unix.SIGTSTP:
		c.orderAll(&protocol.Order{Signal: int(unix.SIGSTOP)})
		control.SuspendAll(c.connections()) // the coordinator stops, but has not died
		c.local.stopSelf()
		return
	case unix.SIGCONT:
		for _, conn := range c.connections() {
			conn.Resume()
		}
		c.local.watchTerminal()
	}
	c.orderAll(&protocol.Order{Signal: int(sig)})
}

// connections returns the connections to the other nodes.
func (c *coordinator) connections() (list []*control.Conn) {
	for _, n := range c.nodes[1:] {
		list = append(list, n.conn)
	}
	return list
}

// handleRemoteSignal handles a signal that the user has sent to the ibrun of another node. again is set if it is the second
// request there to end the job.
func (c *coordinator) handleRemoteSignal(sig syscall.Signal, again bool) {
	switch sig {
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP:
		c.requestEnd(sig, again)
	case unix.SIGTSTP:
		c.orderAll(&protocol.Order{Signal: int(unix.SIGSTOP)})
	default:
		c.orderAll(&protocol.Order{Signal: int(sig)})
	}
}

// requestEnd handles the request of a user to end the job. The first is forwarded to the ranks, which have --grace to end. One
// user may send it to several nodes, so only a second request to the same ibrun kills the ranks.
func (c *coordinator) requestEnd(sig syscall.Signal, second bool) {
	switch {
	case second:
		c.killRanks("did not end when asked", sig)
	case c.endRequested != 0:
	case c.ending:
		c.endRequested, c.failures.endRequested = sig, true
		c.orderEnd(c.settings.Grace) // for the output, which may take long
	default:
		c.endRequested, c.failures.endRequested = sig, true
		c.orderAll(&protocol.Order{Signal: int(sig)})
		c.graceOver = time.After(c.settings.Grace)
		c.requests.began(sig, c.settings.Grace)
	}
}

// killRanks kills all ranks because they did not end after a signal of the user. The message
// has why after the ranks, such as "did not end when asked".
func (c *coordinator) killRanks(why string, sig syscall.Signal) {
	who, running := "the ranks", c.failures.running()
	if len(running) > 0 {
		who = console.Ranks(running)
	}
	c.graceOver = nil
	c.endRequested, c.failures.endRequested = sig, true
	reason := fmt.Sprintf("%s %s, and were killed (%s)", who, why, unix.SignalName(sig))
	f := &failure{rank: -1, code: exitcode.SignalBase + int(sig), reason: reason, time: time.Now().UnixNano(),
		msg: "ranks were killed because they did not end", attrs: console.Attrs{Ranks: running, Signal: int(sig),
			SignalName: unix.SignalName(sig)}}
	c.killed = f
	c.recordFailure(f)
	c.orderEnd(0)
	c.limitEnd(requestedOutputTimeout + agentTimeout)
}
