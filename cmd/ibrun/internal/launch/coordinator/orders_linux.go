package coordinator

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// checkOrder returns an error for orders that the coordinator does not send to this node, or not in
// this state of the job. The functions that process an order rely on it.
func (w *worker) checkOrder(o *protocol.Order) error {
	if err := checkFields(o); err != nil {
		return err
	}
	ok, why := true, fmt.Sprintf("it has sent an invalid order (%s)", setFields(o)[0])
	switch {
	case o.Signal != 0:
		allowed := slices.Concat(console.EndSignals(), console.ForwardedSignals(), []os.Signal{unix.SIGSTOP})
		ok, why = slices.Contains(allowed, os.Signal(syscall.Signal(o.Signal))), fmt.Sprintf("it has sent signal %d", o.Signal)
	case o.End != nil:
		ok = o.End.Grace >= 0 && o.End.OutputTimeout >= 0 && (o.End.LastOutputOf == -1 || w.hasRank(o.End.LastOutputOf))
	case o.Exchange != nil: // the PMI server of the agent checks it
	case o.Left != nil:
		ok = !slices.ContainsFunc(o.Left, func(rank int) bool { return !w.hasRank(rank) })
	case o.Question != nil:
	case o.Answer != nil:
		ok, why = o.Answer.IsAbout(w.isElsewhere), "it has sent the state of ranks that are not on other nodes"
	case o.OutputAck != nil:
		ok, why = w.forward.sent(o.OutputAck), "it acknowledges output that was not sent"
	case o.Input != nil:
		ok = w.forward != nil && w.forward.input.accepts(o.Input)
		why = "it has sent standard input that this node has no room for, or that follows its end"
	case o.Outcome != nil:
	default:
		ok = false
	}
	if !ok {
		return protocolError(why)
	}
	return nil
}

// hasRank reports whether the job has a rank.
func (w *worker) hasRank(rank int) bool { return rank >= 0 && rank < w.local.task.Size }

// isElsewhere reports whether a rank of the job runs on another node.
func (w *worker) isElsewhere(rank int) bool {
	return w.hasRank(rank) && w.local.task.LocalIndex(rank) < 0
}

// handleRemote executes an order of the coordinator. If it is invalid, the coordinator counts as
// lost, and is told why.
func (w *worker) handleRemote(o *protocol.Order) {
	if w.refused {
		return
	}
	if err := w.checkOrder(o); err != nil {
		w.refused = true
		w.cluster.sendEvent(&protocol.Event{Kind: protocol.EventFailure, Code: exitcode.Failed,
			Text: fmt.Sprintf("ibrun on %s has refused an order of node 0: %v", w.local.task.Host, err)})
		w.onCoordinatorLost(newLoss(w.cluster.coordinator, err, time.Now()))
		return
	}
	w.handleOrder(o)
}
