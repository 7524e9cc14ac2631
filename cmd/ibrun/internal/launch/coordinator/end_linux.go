package coordinator

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// How a job ends: a failure is recorded, all agents are ordered to end their ranks, and the outcome
// says with which exit status ibrun ends. failure.go decides which failure counts.

// fail ends the job for a reason that is not the exit of a rank.
func (c *coordinator) fail(n *node, code int, msg, why string) {
	c.recordFailure(&failure{rank: -1, code: code, reason: why, node: n.number, time: time.Now().UnixNano(), msg: msg,
		attrs: n.attrs()})
	c.endJob(c.settings.FailureGrace)
}

// failFrom ends the job because an agent, a watcher or an ibrun has died, or a node is lost, at
// that time by the coordinator's clock. If the job was ended only just before, this may be the
// reason for the failure that has ended it.
func (c *coordinator) failFrom(n *node, code int, why string, when int64) {
	c.recordFailure(&failure{rank: -1, code: code, reason: why, kind: death, node: n.number, time: when, msg: launcherFailed,
		attrs: n.attrs()})
	c.endJob(c.settings.FailureGrace)
}

// recordFailure keeps the first failure: later ones mostly are its consequences. A failure on
// another node may be received late, so times are compared.
func (c *coordinator) recordFailure(f *failure) {
	if c.failure != nil && !f.precedes(c.failure) {
		return
	}
	c.failure = f
	if c.ending {
		c.orderEnd(c.settings.FailureGrace) // another rank's last output is wanted now
	}
}

// endJob orders the agents to end the job, unless they were ordered before. grace is the time
// between SIGTERM and SIGKILL.
func (c *coordinator) endJob(grace time.Duration) {
	if !c.ending {
		c.orderEnd(grace)
	}
}

// orderEnd orders the agents to end the job, perhaps again: for an agent the shortest grace counts,
// and the last limit for output.
func (c *coordinator) orderEnd(grace time.Duration) {
	c.ending = true
	for _, n := range c.nodes {
		n.ending = true
	}
	e := &protocol.EndOrder{Grace: grace, LastOutputOf: -1, OutputTimeout: c.outputTimeout()}
	if c.failure != nil {
		e.LastOutputOf = c.failure.rank
	}
	c.orderAll(&protocol.Order{End: e})
	c.limitOutput()
	if e.OutputTimeout > 0 {
		c.limitEnd(grace + e.OutputTimeout + endMargin)
	}
}

// limitEnd limits how long this ibrun waits for agents that were ordered to end the job. A later
// call cannot extend it.
func (c *coordinator) limitEnd(limit time.Duration) {
	if at := time.Now().Add(limit); c.giveUpAt.IsZero() || at.Before(c.giveUpAt) {
		c.giveUpAt, c.giveUp = at, time.After(limit)
	}
}

// outputTimeout returns how long remaining output may take after the ranks have exited; 0: no
// limit. A job that has succeeded waits until its output is read.
func (c *coordinator) outputTimeout() time.Duration {
	switch {
	case c.timedOut, c.endRequested != 0:
		return requestedOutputTimeout
	case c.failure != nil:
		return failedOutputTimeout
	}
	return 0
}

// outcome returns the exit code of the job, and lines that say why it failed.
func (c *coordinator) outcome() *protocol.Outcome {
	f := c.failure
	if f == nil {
		v := &protocol.Outcome{Code: c.outputCode, Messages: append(c.lostOutputMessages(), c.incompleteOutput()...)}
		if len(c.undelivered) > 0 && c.endRequested != 0 {
			v.Code = exitcode.SignalBase + int(c.endRequested)
		}
		return v
	}
	if f.lost {
		f.reason = c.lossReason(c.nodes[f.node])
	}
	v := &protocol.Outcome{Code: f.code}
	if f.silent {
		v.Messages = c.lostOutputMessages() // of other ranks, which may have lost theirs for another reason
		return v
	}
	if c.killed != nil && c.killed.reason != f.reason {
		v.Messages = append(v.Messages, c.killed.message(""))
	}
	rank := ""
	if f.rank >= 0 {
		if c.endRequested == 0 {
			c.addLastOutput(v, f)
		}
		rank = c.describeRank(f.rank, &f.attrs)
	}
	v.Messages = append(append(v.Messages, f.message(rank)), c.incompleteOutput()...)
	return v
}

// lostOutputMessages returns messages that say whose output was lost, and why.
func (c *coordinator) lostOutputMessages() (all []message.Message) {
	for _, rank := range slices.Sorted(maps.Keys(c.lostOutput)) {
		if why := c.lostOutput[rank]; why != "" {
			m := message.Message{Level: slog.LevelError, Msg: outputLost, Attrs: console.Attrs{Error: why}}
			m.Text = fmt.Sprintf("output of %s was lost: %s", c.describeRank(rank, &m.Attrs), why)
			all = append(all, m)
		}
	}
	return append(all, c.lostNodeOutput()...)
}

// incompleteOutput returns messages that say whose output was not forwarded to its end, and why.
func (c *coordinator) incompleteOutput() (all []message.Message) {
	for _, text := range c.undelivered {
		all = append(all, message.Message{Level: slog.LevelWarn, Msg: "output is incomplete", Attrs: console.Attrs{Text: text}})
	}
	return all
}
